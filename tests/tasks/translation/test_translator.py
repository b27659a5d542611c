"""The translator: texts of any length, in their order, whole."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.decoding.search import Hypothesis
from data.codec import TextCodec
from data.tokenizers import TOKENIZER_NAMES
from data.vocabulary import EOS_ID, UNK_ID
from tasks.seq2seq import generation
from tasks.translation.predict import Translator
from tasks.translation.segments import encoded_segments, lines
from tests.tasks.tiny_models import SENTENCES as TEXTS
from tests.tasks.tiny_models import untrained_translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("codecs")


def search_in_order(monkeypatch: pytest.MonkeyPatch, search: Callable[..., Any]) -> None:
    """Makes every translator search for all segments at once, with ``search``."""
    monkeypatch.setattr(generation, "_in_batches", lambda segments, *rest: [segments])
    monkeypatch.setattr(generation._BatchSearch, "__call__", search)


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Makes every translator repeat its source; returns the list of the sources it is given."""
    given: list[list[int]] = []

    def repeat(search: object, segments: Sequence[Any]) -> Any:
        given.extend(list(segment.ids) for segment in segments)
        found = [[Hypothesis(list(segment.ids), -1.0, -0.5)] for segment in segments]
        return [generation.SegmentResult(hypotheses, None) for hypotheses in found]

    search_in_order(monkeypatch, repeat)
    return given


def test_texts_keep_their_order_and_empty_ones_their_place(folder: Path) -> None:
    translator = untrained_translator(folder)
    texts = ["", TEXTS[1], "  \t ", TEXTS[0], "\n", TEXTS[2], TEXTS[0]]
    found = translator.translate_scored(texts)
    alone = [translator.translate_scored([text])[0] for text in texts]
    assert [f.text for f in found] == [a.text for a in alone]
    assert [f.text for f in found if f.segments == 0] == ["", "", ""]
    assert [f.segments for f in found] == [0, 1, 0, 1, 0, 1, 1]
    assert len({f.text for f in found}) > 2
    assert found[0].score == 0.0
    assert isinstance(found[0].score, float)
    assert translator.translate(texts) == [f.text for f in found]
    assert translator.translate([]) == []


def test_several_translations_of_a_text_are_a_list(folder: Path) -> None:
    translator = untrained_translator(folder)
    expected = [h.text for h in translator.translate_scored(TEXTS[0], n_best=2).hypotheses]
    assert translator.translate(TEXTS[0], n_best=2) == expected
    assert translator.translate([TEXTS[0], ""], n_best=2) == [expected, [""]]
    assert translator.translate(TEXTS[0], n_best=1) == expected[:1]


LONG_TEXTS = {
    "many sentences": " ".join(TEXTS * 40),
    "one endless sentence": " ".join(["der Hund sieht"] * 1700),
    "clauses": " ".join(["der Hund , das Haus ,"] * 90),
    "a long sentence among short ones": " ".join([*TEXTS, *["Hund"] * 70, ".", *TEXTS]),
    "just as long as it can be": " ".join(["Hund"] * 20),
    "one word more": " ".join(["Hund"] * 21),
}


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS.keys())
@pytest.mark.parametrize("limit", ["data.max_tokens", "model.max_len"])
def test_long_texts_are_translated_whole(
    text: str, limit: str, folder: Path, echo: list[list[int]]
) -> None:
    lengths = {"max_len": 21} if limit == "model.max_len" else {"max_tokens": 20}
    translator = untrained_translator(folder, **lengths)
    (found,) = translator.translate_scored([text])
    assert found.text == text
    assert found.segments == len(echo) == (1 if text.count(" ") < 20 else found.segments)
    assert found.score == -0.5 * found.segments
    assert max(map(len, echo)) <= 20
    # No more segments than needed: neighbors that fit into one are joined.
    assert found.segments <= 1 + 2 * len(text.split()) / 20


def test_long_texts_are_split_after_sentences_then_clauses_then_words(
    folder: Path, echo: list[list[int]]
) -> None:
    translator = untrained_translator(folder, max_tokens=8)
    sentence, clauses, words = (
        "das Haus sieht er nicht .",
        "der Hund sieht das Haus , er sieht das Haus nicht .",
        " ".join(["Hund"] * 10),
    )
    translator.translate([f"{sentence} {clauses} {sentence} {words}"])
    assert [translator.source.decode(ids) for ids in echo] == [
        sentence,
        "der Hund sieht das Haus ,",
        "er sieht das Haus nicht .",
        sentence,
        " ".join(["Hund"] * 8),
        "Hund Hund",
    ]


def test_each_sentence_is_translated_by_itself(folder: Path, echo: list[list[int]]) -> None:
    """A model of captions gave one sentence for a paragraph of three, and dropped the others."""
    translator = untrained_translator(folder)
    text = "Hund rennt. Haus rennt nicht! Er sieht das Haus."
    (found,) = translator.translate_scored([text])
    assert found.segments == 3
    assert [len(ids) for ids in echo] == [2, 3, 4]


def test_a_document_keeps_its_lines(folder: Path, echo: list[list[int]]) -> None:
    translator = untrained_translator(folder)
    text = "Hund rennt\n\n  - Haus rennt . Haus sieht\n  - er sieht\r\n> Hund\n"
    assert translator.translate(text) == text
    assert [len(ids) for ids in echo] == [2, 3, 2, 2, 1]
    assert translator.translate(" \n ") == ""
    assert translator.translate(["- Hund ", " Hund"]) == ["- Hund", " Hund"]


@pytest.fixture(scope="module")
def codec_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("more_codecs")


def test_text_without_spaces_is_split_after_its_own_marks(
    tmp_path: Path, echo: list[list[int]]
) -> None:
    config = {"tokenizer": "characters", "max_tokens": 8}
    translator = untrained_translator(tmp_path, **config)
    codec = translator.source
    codec.vocabulary = type(codec.vocabulary)([*codec.vocabulary.itos[:4], *"狗猫跑看。，”"])
    text = "狗看猫跑。猫看狗跑，狗看猫猫猫跑。”狗狗狗狗狗狗狗狗狗狗。"
    assert translator.translate([text]) == [text]
    assert [codec.decode(ids) for ids in echo] == [
        "狗看猫跑。",
        "猫看狗跑，",
        "狗看猫猫猫跑。”",
        "狗狗狗狗狗狗狗狗",
        "狗狗。",
    ]


anything = st.text(st.sampled_from(" \t\n\x1c\u3000\u2028aHund.,;!?。，\"'<br />"), max_size=80)


@given(text=anything, limit=st.integers(1, 9))
def test_whatever_the_text_all_of_its_tokens_are_translated(
    text: str, limit: int, codec_folder: Path
) -> None:
    for tokenizer in ("whitespace", "characters", "sentencepiece"):
        if tokenizer == "whitespace":  # whose words may hold what ends a sentence elsewhere
            text = re.sub("[。，]", " ", text)
        translator = untrained_once(codec_folder, tokenizer, limit)
        segments = encoded_segments(text, translator.source.encode, translator.max_source_tokens)
        assert all(0 < len(segment) <= limit for segment in segments)
        single = re.sub(r"\A\s*[\r\n]", "", text.rstrip())
        assert "".join(part for line in lines(text) for part in line) in (text, single)
        cut = [i for segment in segments for i in segment]
        whole = [i for _, line in lines(text) for i in translator.source.encode(line)]
        if tokenizer == "sentencepiece":  # its tokens differ where a word begins, not their letters
            assert letters(translator.source, cut) == letters(translator.source, whole)
        else:
            assert cut == whole


def letters(codec: TextCodec, ids: list[int]) -> str:
    return codec.decode([i for i in ids if i != UNK_ID]).replace(" ", "")


_KEPT: dict[tuple[str, int], Translator] = {}


def untrained_once(folder: Path, tokenizer: str, limit: int) -> Translator:
    size = 45 if tokenizer == "sentencepiece" else None
    if (tokenizer, limit) not in _KEPT:
        _KEPT[tokenizer, limit] = untrained_translator(
            folder / tokenizer, tokenizer=tokenizer, vocab_size=size, max_tokens=limit
        )
    return _KEPT[tokenizer, limit]


@pytest.mark.parametrize("tokenizer", TOKENIZER_NAMES)
@pytest.mark.parametrize("share", [True, False])
def test_every_tokenizer_translates(tokenizer: str, share: bool, tmp_path: Path) -> None:
    size = 45 if tokenizer == "sentencepiece" else None
    translator = untrained_translator(
        tmp_path, tokenizer=tokenizer, vocab_size=size, share_vocabulary=share
    )
    with torch.no_grad():
        translator.models[0].generator.bias[EOS_ID] = -100.0  # so that there is something to see
    texts = translator.translate([TEXTS[0], "", "völlig 新しい words"], beam_size=2)
    assert texts[1] == ""
    assert texts[0]
    assert not any(special in text for text in texts for special in ("<unk>", "<pad>", "▁"))
