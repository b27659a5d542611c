"""Hashed n-grams: equal to plain Python, whatever the batch is."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from data.batching import pad_sequence
from data.vocabulary import SPECIALS
from tasks.classification.config import ClassifierConfig
from tasks.classification.model import ClassificationModel, PackedClassificationModel
from tasks.classification.ngrams import HashedNgrams
from tests.tasks.tiny_models import spread

SUBWORDS = (*SPECIALS, "▁the", "▁C", "ats", "s", "▁", "▁大狗", "É", "▁a" + "b" * 40)
WORDS = (*SPECIALS, "the", "Cats", "大狗", ".")
ROWS = 1 << 20

TEXTS = st.lists(st.lists(st.sampled_from([0, *range(4, 12)]), max_size=6), min_size=1, max_size=4)


def fnv(state: int, elements: list[int]) -> int:
    """FNV-1a with 32 bits, folded."""
    for element in elements:
        state = (state ^ element) * 16777619 % 2**32
    return state ^ (state >> 16)


def rows_by_hand(tokens: tuple[str, ...], ids: list[int], order: int, characters: int) -> list[int]:
    rows = []
    for n in range(1, order + 1):
        rows += [fnv(2166136261, ids[i : i + n]) for i in range(len(ids) - n + 1)]
    spelled = {
        i: (token.replace("▁", " ") if tokens is SUBWORDS else " " + token).lower()[:32]
        for i, token in enumerate(tokens)
        if i >= 4
    }
    text = "".join(spelled.get(i, "") for i in ids) + " "
    for n in range(3, characters + 1):
        for gram in (text[i : i + n] for i in range(len(text) - n + 1)):
            if " " not in gram[1:-1]:
                rows.append(fnv(2166136261 + 32, list(map(ord, gram))))
    return sorted(row % ROWS for row in rows)


@pytest.mark.parametrize(("order", "characters"), [(1, 0), (3, 0), (0, 3), (2, 5)])
@given(texts=TEXTS, padding=st.integers(0, 3))
def test_the_ngrams_of_a_batch_are_those_of_each_text(
    order: int, characters: int, texts: list[list[int]], padding: int
) -> None:
    ngrams = HashedNgrams(SUBWORDS, 3, order=order, characters=characters, num_weights=3 * ROWS + 2)
    src = torch.cat([pad_sequence(texts), torch.full((padding, len(texts)), 1)])
    rows, owners = ngrams.rows(src)
    for number, ids in enumerate(texts):
        found = sorted(rows[owners == number].tolist())
        assert found == rows_by_hand(SUBWORDS, ids, order, characters)


def test_words_without_marks_have_spaces_around_them() -> None:
    ngrams = HashedNgrams(WORDS, 3, order=1, characters=4, num_weights=3 * ROWS)
    rows, _ = ngrams.rows(torch.tensor([[4], [5], [6], [7]]))
    assert sorted(rows.tolist()) == rows_by_hand(WORDS, [4, 5, 6, 7], 1, 4)


def test_the_scores_are_the_sum_of_rows_over_the_square_root_of_their_number() -> None:
    ngrams = HashedNgrams(SUBWORDS, 3, order=2, characters=4, num_weights=300)
    torch.nn.init.normal_(ngrams.weight)
    ids = [4, 5, 6, 9]
    rows, _ = ngrams.rows(torch.tensor([ids]).t())
    total = sum(ngrams.weight[row] for row in rows.tolist())
    expected = 10.0 * total / len(rows) ** 0.5
    torch.testing.assert_close(ngrams(torch.tensor([ids, [4, 1, 1, 1]]).t())[0], expected)
    assert ngrams(torch.full((2, 1), 1)).tolist() == [[0.0, 0.0, 0.0]]


def test_dropout_leaves_out_ngrams_in_training_only() -> None:
    torch.manual_seed(1)
    options = {"order": 1, "characters": 0, "num_weights": 8}
    ngrams = HashedNgrams((), 1, **options, dropout=0.25)  # type: ignore[arg-type]
    torch.nn.init.ones_(ngrams.weight)
    src = torch.full((400, 1), 5)
    kept = (ngrams(src).item() / 10.0) ** 2  # n / sqrt(n), squared
    assert 270 < kept < 330
    assert ngrams.eval()(src).item() == pytest.approx(200.0)


def model_with_ngrams() -> ClassificationModel:
    torch.manual_seed(1)
    sizes = {"d_model": 8, "nhead": 2, "num_encoder_layers": 1, "dim_feedforward": 16}
    ngrams = {"ngrams": 2, "char_ngrams": 4, "ngram_weights": 400}
    model = ClassificationModel(len(SUBWORDS), 5, **sizes, **ngrams, tokens=SUBWORDS)
    spread(model)
    assert model.ngrams is not None
    torch.nn.init.normal_(model.ngrams.weight)
    return model.eval()


def test_a_text_has_the_same_scores_in_every_batch() -> None:
    model = model_with_ngrams()
    texts = [[4, 5, 6], [7], [8, 9, 10, 11, 4, 5], [4, 6, 5]]
    with torch.no_grad():
        together = model(pad_sequence(texts))
        alone = torch.cat([model(pad_sequence([text])) for text in texts])
        encoder, ngrams = model.scores_of_parts(pad_sequence(texts))
        packed, _ = PackedClassificationModel(model).scores_and_states(pad_sequence(texts))
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(together, (encoder + ngrams) / 2)
    torch.testing.assert_close(together, packed, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(ngrams[0], ngrams[3], atol=1e-3)  # pairs have an order


@given(exit_at=st.floats(0.01, 1.0))
def test_an_early_exit_leaves_the_encoder_out_where_the_ngrams_are_certain(exit_at: float) -> None:
    model = model_with_ngrams()
    texts = [[4, 5, 6], [7], [8, 9, 10, 11, 4, 5], [4, 6, 5], [5]]
    src, temperature = pad_sequence(texts), 3.0
    early = PackedClassificationModel(model, early_exit=exit_at, temperature=temperature)
    scores, states = early.scores_and_states(src)
    with torch.no_grad():
        encoder, ngrams = model.scores_of_parts(src)
    certainty = (ngrams / temperature).softmax(dim=1).amax(dim=1)
    is_certain = certainty >= exit_at
    expected = torch.where(is_certain[:, None], ngrams, (encoder + ngrams) / 2)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-4)
    assert states.isnan().any(dim=1).tolist() == is_certain.tolist()
    torch.testing.assert_close(states[~is_certain], model.pooled(src)[~is_certain])


def test_ngrams_of_characters_need_the_tokens() -> None:
    with pytest.raises(ValueError, match="tokens must be all 30 tokens, not 0"):
        ClassificationModel(30, 4, char_ngrams=3)


def test_only_sizes_that_work_are_accepted() -> None:
    for name, value in (("ngrams", 9), ("char_ngrams", 2), ("ngram_weights", 1 << 30)):
        with pytest.raises(ConfigError, match=f"model.{name} must be"):
            ClassifierConfig(**{name: value})
    with pytest.raises(ConfigError, match=r"model\.ngram_dropout must be"):
        ClassifierConfig(ngram_dropout=1.0)
