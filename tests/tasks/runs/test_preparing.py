"""However a corpus is prepared, training sees the same batches in the same order.

The reference is the plain way: texts read into lists, encoded one by one, bucketed and padded.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from data.batching import bucket_by_length, epoch_seed, pad_sequence
from data.tokenizers import Characters
from data.vocabulary import BOS_ID, EOS_ID, UNK_ID
from tasks.classification.config import ClassificationData
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.couplet.config import CoupletData
from tasks.couplet.dataset import LoadCoupletDataset
from tasks.translation.config import TranslationData
from tasks.translation.dataset import ParallelCorpus

SEED, BATCH_TOKENS, MAX_LEN = 3, 120, 20
PIECES = {"vocab_size": 100}

Batches = list[tuple[Tensor, ...]]


def dataset_of(task: str, corpus: Path, out: Path, options: dict[str, Any]) -> Any:
    if task == "translation":
        config = TranslationData(**PIECES | options)
        return ParallelCorpus(corpus, config, seed=SEED, save_to=out)
    if task == "classification":
        return LoadSentenceClassificationDataset(
            corpus, ClassificationData(**PIECES | {"val_share": 0.1} | options), seed=1, save_to=out
        )
    return LoadCoupletDataset(corpus, CoupletData(**options), seed=1, save_to=out)


def batches(data: Any, epoch: int) -> Batches:
    return [data.batch(item) for item in data.plan(epoch)]


def plain_pairs(dataset: Any) -> list[tuple[list[int], ...]]:
    """The training pairs, encoded one text after the other."""
    if isinstance(dataset, LoadCoupletDataset):
        codecs, max_tokens = [dataset.codec] * 2, MAX_LEN - 1
    else:
        codecs = [dataset.source, dataset.target]
        max_tokens = min(MAX_LEN - 1, dataset.config.max_tokens)
    pairs = [
        tuple(codec.encode(text) for codec, text in zip(codecs, pair, strict=True))
        for pair in dataset.read("train")
    ]
    return [pair for pair in pairs if max(map(len, pair)) <= max_tokens]


def plain_batches(task: str, dataset: Any, epoch: int) -> Batches:
    if task == "classification":
        return plain_text_batches(dataset, epoch)
    pairs = plain_pairs(dataset)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    seed = epoch_seed(SEED, epoch)
    return [
        (
            pad_sequence([[*pairs[i][0], EOS_ID] for i in batch]),
            pad_sequence([[BOS_ID, *pairs[i][1], EOS_ID] for i in batch]),
        )
        for batch in bucket_by_length(lengths, batch_tokens=BATCH_TOKENS, seed=seed)
    ]


def plain_text_batches(dataset: LoadSentenceClassificationDataset, epoch: int) -> Batches:
    rows = dataset.read("train")
    seed = epoch_seed(SEED, epoch)
    ids = [(dataset.codec.encode(dataset.text_of(row)) or [UNK_ID])[:MAX_LEN] for row in rows]
    found = bucket_by_length([(len(one),) for one in ids], batch_tokens=BATCH_TOKENS, seed=seed)
    return [
        (pad_sequence([ids[i] for i in batch]), torch.tensor([rows[i].label for i in batch]))
        for batch in found
    ]


def assert_same(found: Sequence[tuple[Tensor, ...]], expected: Batches) -> None:
    assert len(found) == len(expected) > 3
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.dtype == b.dtype and torch.equal(a, b)


OPTIONS = {
    "translation": [{}, {"share_vocabulary": False}, {"max_tokens": 11}],
    "classification": [{}, {"columns": ("title",)}],
    "couplet": [{}, {"extra": ("verse",)}],
}
CASES = [(task, options) for task, several in OPTIONS.items() for options in several]


@pytest.fixture
def corpora(tiny_corpora: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """The tiny corpora, the couplets with a folder more, a long couplet and an uneven one."""
    folder = shutil.copytree(tiny_corpora["couplet"], tmp_path / "couplets")
    (folder / "verse").mkdir()
    for name, text in (("in.txt", "天地\n春\n天 地\n"), ("out.txt", "山水\n夏秋\n山水\n")):
        (folder / "verse" / name).write_text(text, encoding="utf-8")
        with (folder / "train" / name).open("a", encoding="utf-8") as file:
            file.write(" ".join("高" * 25) + "\n")
    return tiny_corpora | {"couplet": folder}


@pytest.mark.parametrize(("task", "options"), CASES, ids=str)
def test_the_batches_are_those_of_the_plain_way(
    task: str, options: dict[str, Any], corpora: dict[str, Path], tmp_path: Path
) -> None:
    dataset = dataset_of(task, corpora[task], tmp_path / "out", options)
    data = dataset.training_data(batch_tokens=BATCH_TOKENS, seed=SEED, max_len=MAX_LEN)
    for epoch in (1, 2):
        assert_same(batches(data, epoch), plain_batches(task, dataset, epoch))


def test_what_is_left_out_is_counted_once(
    corpora: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = dataset_of("couplet", corpora["couplet"], tmp_path / "out", {"extra": ("verse",)})
    dataset.training_data(batch_tokens=BATCH_TOKENS, seed=SEED, max_len=MAX_LEN)
    said = capsys.readouterr().err
    message = "verse: 1 of 3 couplets have lines of different length (the first is line 2)"
    assert said.count(message) == 1  # it was printed for the vocabulary and for the batches
    assert "train: 1 of 129 pairs have more than 19 tokens" in said


@given(st.text())
def test_a_character_that_is_no_space_is_a_token(text: str) -> None:
    """So that couplets which are even in characters are even in ids."""
    assert len(Characters().tokenize(text)) == len("".join(text.split()))
