"""However a corpus is prepared, training sees the same batches in the same order.

The reference is the plain way: texts read into lists, encoded one by one, bucketed and padded.
"""

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from core.errors import CorpusError
from core.storage.checkpoint import load_tensors
from data import cache
from data.batching import bucket_by_length, epoch_seed, pad_sequence
from data.corpora import DATA_FOLDER_VARIABLE
from data.tokenizers import Characters, seed_dropout
from data.vocabulary import BOS_ID, EOS_ID, UNK_ID
from tasks.classification.config import ClassificationData
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.couplet.config import CoupletData
from tasks.couplet.dataset import LoadCoupletDataset
from tasks.translation.config import TranslationData
from tasks.translation.dataset import LoadEnglishGermanDataset
from tests.tasks.tiny_trainings import train

SEED, BATCH_TOKENS, MAX_LEN = 3, 120, 20
PIECES = {"vocab_size": 100}

Batches = list[tuple[Tensor, ...]]


def dataset_of(task: str, corpus: Path, out: Path, options: dict[str, Any]) -> Any:
    if task == "translation":
        config = TranslationData(**PIECES | options)
        return LoadEnglishGermanDataset(corpus, config, seed=SEED, save_to=out)
    if task == "classification":
        return LoadSentenceClassificationDataset(
            corpus, ClassificationData(**PIECES | {"val_share": 0.1} | options), seed=1, save_to=out
        )
    return LoadCoupletDataset(corpus, CoupletData(**options), seed=1, save_to=out)


def batches(data: Any, epoch: int) -> Batches:
    return [data.batch(item) for item in data.plan(epoch)]


def plain_pairs(dataset: Any, epoch: int) -> list[tuple[list[int], ...]]:
    """The training pairs of an epoch, one text after the other."""
    if isinstance(dataset, LoadCoupletDataset):
        texts, codecs, dropout = dataset.read("train"), [dataset.codec] * 2, 0.0
        max_tokens = MAX_LEN - 1
    else:
        texts = list(zip(*dataset.read("train"), strict=True))
        codecs, dropout = [dataset.source, dataset.target], dataset.config.bpe_dropout
        max_tokens = min(MAX_LEN - 1, dataset.config.max_tokens)

    def encode(pair: Sequence[str], dropout: float) -> tuple[list[int], ...]:
        both = zip(codecs, pair, strict=True)
        return tuple(codec.encode(text, dropout=dropout) for codec, text in both)

    kept = [(pair, encode(pair, 0.0)) for pair in texts]
    kept = [(pair, ids) for pair, ids in kept if max(map(len, ids)) <= max_tokens]
    if not dropout:
        return [ids for _, ids in kept]
    seed_dropout(epoch_seed(SEED, epoch))
    others = [encode(pair, dropout) for pair, _ in kept]
    return [
        other if max(map(len, other)) <= max_tokens else ids
        for other, (_, ids) in zip(others, kept, strict=True)
    ]


def plain_batches(task: str, dataset: Any, epoch: int) -> Batches:
    if task == "classification":
        return plain_text_batches(dataset, epoch)
    pairs = plain_pairs(dataset, epoch)
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
    rows, config = dataset.read("train"), dataset.config
    seed = epoch_seed(SEED, epoch)
    if config.bpe_dropout:
        seed_dropout(seed)
    ids = [
        dataset.codec.encode(dataset.text_of(row), dropout=config.bpe_dropout) or [UNK_ID]
        for row in rows
    ]
    ids = [one[:MAX_LEN] for one in ids]
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


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Even the smallest corpus is kept when it is prepared; this is where."""
    monkeypatch.setattr(cache, "_MIN_CORPUS_BYTES", 0)
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "data"))
    return tmp_path / "data" / "prepared"


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called no corpus is read any more."""

    def forbid() -> None:
        def refuse(*files: Path, **options: Any) -> Iterator[Any]:
            yield from ()  # a generator, as the readers are: it refuses when it is read
            raise AssertionError(f"{files} are read again")

        for module, name in (
            ("data.encoding", "iter_parallel"),
            ("tasks.translation.dataset", "read_parallel"),
            ("tasks.couplet.dataset", "iter_parallel"),
            ("tasks.classification.sources", "iter_labeled_csv"),
        ):
            monkeypatch.setattr(f"{module}.{name}", refuse)

    return forbid


OPTIONS = {
    "translation": [{}, {"share_vocabulary": False}, {"max_tokens": 11}, {"bpe_dropout": 0.3}],
    "classification": [{}, {"columns": ("title",)}, {"bpe_dropout": 0.3}],
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
    task: str,
    options: dict[str, Any],
    corpora: dict[str, Path],
    kept: Path,
    tmp_path: Path,
    no_reading: Callable[[], None],
) -> None:
    """Prepared for the first time and taken from disk, vocabularies included."""
    arguments = {"batch_tokens": BATCH_TOKENS, "seed": SEED, "max_len": MAX_LEN}
    first = dataset_of(task, corpora[task], tmp_path / "first", options)
    expected = [plain_batches(task, first, epoch) for epoch in (1, 2)]
    data = first.training_data(**arguments)
    again = dataset_of(task, corpora[task], tmp_path / "again", options)
    if not options.get("bpe_dropout"):
        no_reading()
    others = dataset_of(task, corpora[task], tmp_path / "other", options).training_data(**arguments)
    assert list(kept.iterdir())
    for epoch, batches_of_epoch in enumerate(expected, start=1):
        assert_same(batches(data, epoch), batches_of_epoch)
        assert_same(batches(others, epoch), batches_of_epoch)
    for path in (tmp_path / "first").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    assert again.config == first.config


def test_what_is_left_out_is_counted_from_disk_too(
    corpora: dict[str, Path], kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for name in ("first", "again"):
        dataset = dataset_of("couplet", corpora["couplet"], tmp_path / name, {"extra": ("verse",)})
        dataset.training_data(batch_tokens=BATCH_TOKENS, seed=SEED, max_len=MAX_LEN)
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    message = "verse: 1 of 3 couplets have lines of different length (the first is line 2)"
    assert said[0].count(message) == 1  # it was printed for the vocabulary and for the batches
    assert "train: 1 of 129 pairs have more than 19 tokens" in said[0]


def test_a_corpus_that_changes_is_prepared_again(
    task: str, corpora: dict[str, Path], kept: Path, tmp_path: Path
) -> None:
    corpus = shutil.copytree(corpora[task], tmp_path / "corpus")
    dataset_of(task, corpus, tmp_path / "first", {}).encoded("train", **limits(task))
    for path in corpus.rglob("*train*") if task != "couplet" else (corpus / "train").iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: content.index(b"\n", len(content) // 2) + 1])
    dataset = dataset_of(task, corpus, tmp_path / "second", {})
    data = dataset.training_data(batch_tokens=BATCH_TOKENS, seed=SEED, max_len=MAX_LEN)
    assert_same(batches(data, 1), plain_batches(task, dataset, 1))


def limits(task: str) -> dict[str, int]:
    return {} if task == "classification" else {"max_len": MAX_LEN}


def test_another_vocabulary_is_another_encoding(
    corpora: dict[str, Path], kept: Path, tmp_path: Path
) -> None:
    for size in (60, 100):
        dataset = dataset_of(
            "translation", corpora["translation"], tmp_path / str(size), {"vocab_size": size}
        )
        source, _ = dataset.read("val")
        found = [ids for ids, _ in dataset.encoded("val", max_len=99)]
        assert found == [dataset.source.encode(text) for text in source]


def test_another_seed_holds_out_other_rows(
    corpora: dict[str, Path], kept: Path, tmp_path: Path
) -> None:
    """The encoded file is one; which of its rows are trained on, and learnt from, is not."""
    config = ClassificationData(tokenizer="whitespace", vocab_size=None, val_share=0.5, min_freq=1)
    found = []
    for seed in (1, 2, 1):
        dataset = LoadSentenceClassificationDataset(
            corpora["classification"], config, seed=seed, save_to=tmp_path / "codec"
        )
        rows = dataset.read("train")
        words = {word for row in rows for word in dataset.text_of(row).split()}
        assert set(dataset.codec.vocabulary.itos[4:]) == words
        encoded = dataset.encoded("train")
        assert [label for _, label in encoded] == [row.label for row in rows]
        assert encoded == [(dataset.codec.encode(dataset.text_of(r)), r.label) for r in rows]
        found.append(encoded)
    assert found[0] == found[2] != found[1]


def test_a_run_from_disk_is_the_run(
    task: str, tiny_corpora: dict[str, Path], kept: Path, tmp_path: Path
) -> None:
    settings = () if task == "couplet" else ("data.vocab_size=400",)
    found = []
    for name in ("first", "again"):
        metrics = train(task, tiny_corpora[task], tmp_path / name, *settings)
        found.append((load_tensors(tmp_path / name / "model.safetensors"), metrics["test"]))
    (first, measured), (again, measured_again) = found
    assert list(kept.iterdir())
    assert measured == measured_again
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_an_error_in_a_corpus_is_named_each_time(
    corpora: dict[str, Path], kept: Path, tmp_path: Path
) -> None:
    corpus = shutil.copytree(corpora["translation"], tmp_path / "corpus")
    path = corpus / "train.de"
    path.write_text(path.read_text().replace("\n", "\n\n", 1))
    for _ in range(2):
        with pytest.raises(CorpusError, match=r"train\.de:2: empty line"):
            dataset_of("translation", corpus, tmp_path / "out", {})


@given(st.text())
def test_a_character_that_is_no_space_is_a_token(text: str) -> None:
    """So that couplets which are even in characters are even in ids."""
    assert len(Characters().tokenize(text)) == len("".join(text.split()))


def test_the_real_captions(shared_data: Path, kept: Path, tmp_path: Path) -> None:
    config = TranslationData(vocab_size=2000, max_tokens=18)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for language in ("de", "en"):
        lines = (shared_data / "multi30k" / f"train.{language}").read_bytes().split(b"\n")
        (corpus / f"train.{language}").write_bytes(b"\n".join(lines[:4000]) + b"\n")
    options = dataclasses.asdict(config)
    first, again = (
        dataset_of("translation", corpus, tmp_path / name, options) for name in ("first", "again")
    )
    expected = plain_batches("translation", first, 1)
    for dataset in (first, again):
        data = dataset.training_data(batch_tokens=BATCH_TOKENS, seed=SEED, max_len=MAX_LEN)
        assert_same(batches(data, 1), expected)
