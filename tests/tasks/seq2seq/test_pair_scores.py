"""Scores of pairs: the probabilities of the model, in any batch, in the order of the pairs."""

import json
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decoding.config import GenerationConfig
from core.decoding.search import Hypothesis
from data.batching import pad_sequence
from data.codec import TextCodec
from data.tokenizers import get_tokenizer
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID, Vocabulary
from tasks.seq2seq.pair_scores import PairScore, score_texts
from tasks.translation.predict import Translator
from tests.tasks.searching import search
from tests.tasks.tiny_models import CPU, network

# The rounding error of a score, some units in the last of the seven digits of a float32.
NOISE = {"abs": 2e-5, "rel": 3e-6}

WORDS = [
    *("der", "Hund", "rennt", "sieht", "das", "Haus", "und", "die"),
    *("Katze", "malt", "ein", "Boot", "am", "Meer", "gern", "."),
]
CODEC = TextCodec(get_tokenizer("whitespace"), Vocabulary([*SPECIALS, *WORDS]))
MAX_LEN = 12
# In float64: rounding inside a random network is not what these tests are about.
MODEL = network(len(CODEC.vocabulary), max_len=MAX_LEN).double()

texts = st.lists(st.sampled_from([*WORDS, "Zebra"]), max_size=MAX_LEN - 1).map(" ".join)


def scores(sources: Sequence[str], targets: Sequence[str], **options: int) -> list[PairScore]:
    return score_texts([MODEL], (CODEC, CODEC), sources, targets, device=CPU, **options)


def by_hand(source: str, target: str) -> list[float]:
    """Word by word, the whole model over each prefix, among what could come at its place."""
    tgt = [BOS_ID, *CODEC.encode(target), EOS_ID]
    prefixes = pad_sequence([tgt[:place] for place in range(1, len(tgt))])
    src = torch.tensor([*CODEC.encode(source), EOS_ID]).unsqueeze(1)
    with torch.inference_mode():
        of_prefixes = MODEL(src.expand(-1, prefixes.shape[1]), prefixes)
    found = []
    for place in range(1, len(tgt)):
        logits = of_prefixes[place - 1, place - 1]
        excluded = {PAD_ID, BOS_ID, UNK_ID} - {tgt[place]}
        rated = [i for i in range(len(logits)) if i not in excluded]
        found.append(float(logits[rated].log_softmax(dim=0)[rated.index(tgt[place])]))
    return found


@settings(max_examples=40, derandomize=True)
@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=6), size=st.integers(1, 60))
def test_scores_are_the_models_in_any_batch(pairs: list[tuple[str, str]], size: int) -> None:
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    found = scores(sources, targets, batch_tokens=size)
    for one, (source, target) in zip(found, pairs, strict=True):
        assert one.log_probs == pytest.approx(by_hand(source, target), **NOISE)
        assert one.tokens == (*target.split(), "<eos>")
        assert one.log_prob == pytest.approx(sum(one.log_probs))
        assert one.mean == pytest.approx(one.log_prob / len(one.tokens))
        assert one.unknown == target.split().count("Zebra")
    for one, other in zip(found, scores(sources, targets), strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, **NOISE)


def test_a_text_that_looks_like_a_special_token_is_an_unknown_word() -> None:
    (found,) = scores(["der Hund"], ["<eos> <pad> Hund <bos>"])
    assert found.unknown == 3
    assert math.isfinite(found.log_prob)
    assert found.tokens == ("<eos>", "<pad>", "Hund", "<bos>", "<eos>")


@pytest.mark.parametrize("side", [0, 1])
def test_a_pair_too_long_for_the_model_has_no_probability(side: int) -> None:
    """The longest pair that fits has one, and so have the other pairs of its batch."""
    fits, too_long = (" ".join(["Hund"] * (MAX_LEN - 1 + extra)) for extra in (0, 1))
    pairs = [("das Haus", "das Haus"), ("Hund", "Hund"), ("Hund", "Hund"), ("ein", "Boot")]
    for i, text in ((1, too_long), (2, fits)):
        pairs[i] = (text, "Hund") if side == 0 else ("Hund", text)
    found = scores([s for s, _ in pairs], [t for _, t in pairs])
    assert set(found[1].log_probs) == {-math.inf}
    assert len(found[1].log_probs) == len(found[1].tokens) == len(pairs[1][1].split()) + 1
    assert found[1].log_prob == found[1].mean == -math.inf
    for i in (0, 2, 3):
        assert found[i].log_probs == pytest.approx(by_hand(*pairs[i]), **NOISE)


def test_a_record_is_json_without_infinities() -> None:
    found = scores(["der Hund", "Hund " * MAX_LEN], ["das Zebra", "Hund"])
    fine, too_long = (json.loads(json.dumps(one.record(), allow_nan=False)) for one in found)
    assert list(fine) == ["log_prob", "mean", "tokens", "log_probs", "unknown"]
    assert fine["log_prob"] == pytest.approx(found[0].log_prob, abs=1e-5)
    assert fine["log_probs"] == pytest.approx(list(found[0].log_probs), abs=1e-5)
    assert (fine["tokens"], fine["unknown"]) == (["das", "Zebra", "<eos>"], 1)
    assert (too_long["log_prob"], too_long["mean"]) == (None, None)
    assert too_long["log_probs"] == [None, None]


# The models that ship: a search's own output has the probability that the search gave it


def assert_scores_are_the_searchs(found: list[list[Hypothesis]], scored: list[PairScore]) -> None:
    for (best, *_), one in zip(found, scored, strict=True):
        assert one.log_prob == pytest.approx(best.log_prob, abs=2e-4)
        assert len(one.tokens) == len(best.tokens) + 1


def test_a_translation_has_the_probability_that_the_search_found() -> None:
    translator = Translator.load(device="cpu")
    subjects = ("Ein Hund", "Eine Frau in einem roten Kleid", "Zwei Kinder", "Ein alter Mann")
    predicates = ("am Strand.", "im Schnee und lacht.", "vor einem Haus auf der Straße.")
    sources = [f"{subject} {predicate}" for subject in subjects for predicate in predicates]
    ids = [translator.source.encode(source) for source in sources]
    found = search(translator.step_model(), ids, GenerationConfig(beam_size=3))
    targets = [translator.target.decode(best.tokens) for best, *_ in found]
    # SentencePiece may split a text into other tokens than those that the search found.
    encoded = [translator.target.encode(target) for target in targets]
    same = [i for i, (best, *_) in enumerate(found) if encoded[i] == best.tokens]
    assert len(same) >= 10
    scored = translator.score([sources[i] for i in same], [targets[i] for i in same])
    assert_scores_are_the_searchs([found[i] for i in same], scored)
