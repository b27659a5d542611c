"""Pairs of sequences: batches, tensors, the training loss and the validation measures."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorpusError
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from tasks.seq2seq import objective
from tasks.seq2seq.batches import Pair, PairData, as_tensors, short_pairs, source_tensor
from tasks.seq2seq.objective import measure_pairs, pair_loss
from tests.tasks.tiny_models import CPU, network

# Sides of many lengths, none the length of its other side.
PAIRS: list[Pair] = [
    ([4 + (i * 7 + j) % 15 for j in range(1 + i % 6)], [5 + (i * 3 + j) % 14 for j in range(8 - i)])
    for i in range(7)
]


def test_a_source_ends_and_a_target_begins_and_ends() -> None:
    src, tgt = as_tensors([([7, 8], [9]), ([5], [6, 7, 8])])
    assert src.t().tolist() == [[7, 8, EOS_ID], [5, EOS_ID, PAD_ID]]
    assert tgt.t().tolist() == [[BOS_ID, 9, EOS_ID, PAD_ID, PAD_ID], [BOS_ID, 6, 7, 8, EOS_ID]]
    assert source_tensor([[]]).tolist() == [[EOS_ID]]


pair_lists = st.lists(
    st.tuples(*[st.lists(st.integers(4, 19), max_size=9)] * 2), min_size=1, max_size=40
)


@given(pairs=pair_lists, epoch=st.integers(1, 3), batch_tokens=st.integers(12, 60))
def test_an_epoch_has_every_pair_once_within_the_budget(
    pairs: list[Pair], epoch: int, batch_tokens: int
) -> None:
    data = PairData(lambda number: pairs, batch_tokens=batch_tokens, seed=3)
    plan = data.plan(epoch)
    assert sorted(pair for batch in plan for pair in batch) == sorted(pairs)
    for batch in plan:
        src, tgt = data.batch(batch)
        # The decoder reads T of the T+1 target positions.
        assert max(src.numel(), tgt[1:].numel()) <= batch_tokens


def test_epochs_differ_and_repeat() -> None:
    pairs = [([4 + i % 5] * (1 + i % 3), [5]) for i in range(60)]
    first, again = (PairData(lambda n: pairs, batch_tokens=12, seed=3) for _ in range(2))
    other = PairData(lambda n: pairs, batch_tokens=12, seed=4)
    assert first.plan(1) == again.plan(1)
    assert first.plan(1) != first.plan(2)
    assert first.plan(1) != other.plan(1)


def by_hand(pairs: list[Pair]) -> tuple[float, int, int]:
    """The summed loss, the right guesses and the tokens, one pair and one position at a time."""
    model, loss, right, count = network(), 0.0, 0, 0
    for source, target in pairs:
        src = torch.tensor([[*source, EOS_ID]]).t()
        past = [BOS_ID]
        for token in (*target, EOS_ID):
            with torch.no_grad():
                log_probs = model(src, torch.tensor([past]).t())[-1, 0].log_softmax(dim=0)
            loss -= log_probs[token].item()
            right += int(log_probs.argmax().item() == token)
            count += 1
            past.append(token)
    return loss, right, count


@pytest.mark.parametrize(("batch_tokens", "rows"), [(1, 4096), (20, 5), (1000, 4096), (1000, 7)])
def test_what_is_measured_equals_a_loop_over_the_tokens(
    batch_tokens: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the logits of a batch are computed in several parts."""
    monkeypatch.setattr(objective, "_ROWS", rows)
    model = network()
    # Some targets that the model gets right, so that the accuracy is above 0.
    guesses = [
        model(source_tensor([source]), torch.tensor([[BOS_ID]])).argmax().item()
        for source, _ in PAIRS
    ]
    sources = [source for source, _ in PAIRS]
    pairs = [*PAIRS, *((source, [guess]) for source, guess in zip(sources, guesses, strict=True))]
    loss, right, count = by_hand(pairs)
    measured = measure_pairs([model], pairs, batch_tokens=batch_tokens, device=CPU)
    assert right > 0
    assert measured["accuracy"] == right / count
    assert math.isclose(measured["loss"], loss / count, rel_tol=1e-5)


def test_the_training_loss_is_the_sum_that_is_measured() -> None:
    model = network()
    total, count = pair_loss(model, 0.0)(as_tensors(PAIRS))
    measured = measure_pairs([model], PAIRS, batch_tokens=1000, device=CPU)
    assert count == sum(len(target) + 1 for _, target in PAIRS)
    assert math.isclose(total.item() / count, measured["loss"], rel_tol=1e-5)


def test_the_training_loss_is_smoothed() -> None:
    """(1 - e) of the loss of the right token, e of the mean loss of all tokens."""
    model, (src, tgt) = network(), as_tensors(PAIRS)
    total, _ = pair_loss(model, 0.3)((src, tgt))
    log_probs, following = model(src, tgt[:-1]).log_softmax(dim=-1), tgt[1:]
    right = log_probs.gather(2, following.unsqueeze(2)).squeeze(2)
    expected = -(0.7 * right + 0.3 * log_probs.mean(dim=2))[following != PAD_ID].sum()
    torch.testing.assert_close(total, expected)


def test_long_pairs_are_left_out_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A validation pair that was longer than the model ended a training in its first epoch."""
    pairs: list[Pair] = [([4] * 3, [5]), ([4], [5] * 4), ([4] * 4, [5] * 4), ([], [5] * 5)]
    assert short_pairs(pairs, 4, Path("corpus/val")) == [0, 1, 2]
    said = capsys.readouterr().err
    assert "corpus/val: 1 of 4 pairs" in said
    assert short_pairs(pairs, 5, Path("corpus/val")) == [0, 1, 2, 3]
    assert capsys.readouterr().err == ""
    with pytest.raises(CorpusError, match="corpus/val: no pair here has at most 2 tokens"):
        short_pairs(pairs, 2, Path("corpus/val"))
