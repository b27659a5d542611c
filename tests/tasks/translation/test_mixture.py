"""Extra folders of training pairs: which pairs an epoch draws, tags, and what is refused."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from core.config import from_mapping, override, to_mapping
from core.errors import ChangedConditions, ConfigError, CorpusError
from core.storage.checkpoint import WEIGHTS_FILE, load_tensors
from data.tokenizers import tag_token
from tasks.runs.checkpoint_folder import read_config
from tasks.translation.config import ExtraCorpus, TranslationConfig, TranslationData, tiny
from tasks.translation.dataset import ParallelCorpus
from tasks.translation.predict import Translator
from tests.commands.command_line import lines_of
from tests.tasks.tiny_models import train_with

Models = Callable[[str], Path]
Pairs = list[tuple[str, str]]

MAIN = [(f"eins {n} Hund", f"one {n} dog") for n in "abcd"]
EXTRA = [(f"zwei {a}{b}", f"two {a}{b}") for a in "klmno" for b in "pqrst"]


def write(folder: Path, pairs: Pairs, split: str = "train") -> Path:
    folder.mkdir(exist_ok=True)
    for language, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write(tmp_path / "extra", EXTRA)
    write(tmp_path / "main", MAIN[:1], "val")
    return write(tmp_path / "main", MAIN)


def load(corpus: Path, *extra: ExtraCorpus, **options: Any) -> ParallelCorpus:
    settings = {"vocab_size": 420, "byte_fallback": True} | options
    config = TranslationData(extra=extra, **settings)
    return ParallelCorpus(corpus, config, seed=1, save_to=corpus / "codecs")


def drawn(dataset: ParallelCorpus, epoch: int, max_len: int = 60) -> Pairs:
    """The texts of an epoch, tags included."""
    data = dataset.training_data(batch_tokens=200, seed=5, max_len=max_len)
    tags = {dataset.source.tag_id(tag): f"<{tag}> " for tag in dataset.config.tags}
    return [
        (tags.get(source[0], "") + dataset.source.decode(source), dataset.target.decode(target))
        for batch in data.plan(epoch)
        for source, target in batch
    ]


@pytest.mark.parametrize(("weight", "count"), [(0.3, 8), (1.0, 25), (2.0, 50), (2.5, 62)])
def test_a_weight_is_how_often_pairs_are_drawn(corpus: Path, weight: float, count: int) -> None:
    extra = ExtraCorpus(path=str(corpus.parent / "extra"), weight=weight)
    found = Counter(drawn(load(corpus, extra), 1))
    assert {pair: found.pop(pair) for pair in MAIN} == dict.fromkeys(MAIN, 1)
    assert sum(found.values()) == count
    assert found.keys() <= {*EXTRA}
    assert {*found.values()} <= {int(weight), int(weight) + 1}


def test_seed_and_epoch_alone_decide_what_is_drawn(corpus: Path) -> None:
    extra = ExtraCorpus(path=str(corpus.parent / "extra"), weight=0.3)
    dataset = load(corpus, extra)
    epochs = [drawn(dataset, epoch) for epoch in (1, 2, 3)]
    again = load(corpus, extra)
    assert [drawn(again, epoch) for epoch in (3, 1)] == [epochs[2], epochs[0]]
    shares = [{*epoch} - {*MAIN} for epoch in epochs]
    assert len({frozenset(share) for share in shares}) == 3


def test_two_folders_are_drawn_independently(corpus: Path) -> None:
    """With the same random numbers, two folders of one size would give the same rows."""
    other = write(corpus.parent / "other", [(f"drei {s}", f"three {t}") for s, t in EXTRA])
    paths = (corpus.parent / "extra", other)
    extras = (ExtraCorpus(path=str(path), weight=0.4) for path in paths)
    found = [target for _, target in drawn(load(corpus, *extras), 1)]
    first = {target for target in found if target.startswith("two")}
    second = {target.removeprefix("three ") for target in found if target.startswith("three")}
    assert len(first) == len(second) == 10
    assert first != second


@pytest.mark.parametrize("share", [True, False])
def test_a_tag_is_one_token_before_the_source(corpus: Path, share: bool) -> None:
    extra = ExtraCorpus(path=str(corpus.parent / "extra"), tag="bt")
    dataset = load(corpus, extra, share_vocabulary=share)
    expected = [*MAIN, *((f"<bt> {source}", target) for source, target in EXTRA)]
    assert sorted(drawn(dataset, 1)) == sorted(expected)
    tag = dataset.source.tag_id("bt")
    assert tag not in dataset.source.encode("<bt> Hund")
    assert dataset.source.decode([tag, *dataset.source.encode("<bt>")]) == "<bt>"
    assert (tag_token("bt") in dataset.target.vocabulary) == share


def test_a_tag_counts_for_the_longest_pair(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(corpus.parent / "long", [("zwei kl" * 10, "two"), ("zwei", "two")])
    dataset = load(corpus, ExtraCorpus(path=str(folder), tag="bt"))
    length = len(dataset.source.encode("zwei kl" * 10))
    assert len(drawn(dataset, 1, max_len=length + 2)) == 6
    assert "left out" not in capsys.readouterr().err
    assert len(drawn(dataset, 1, max_len=length + 1)) == 5
    assert "long/train: 1 of 2 pairs" in capsys.readouterr().err


def test_a_share_of_the_pairs_is_changed_anew_in_every_epoch(corpus: Path) -> None:
    extra = ExtraCorpus(path=str(corpus.parent / "extra"), weight=4.0, tag="bt")
    dataset = load(corpus, extra, augment=0.4)
    plain = {*MAIN, *((f"<bt> {source}", target) for source, target in EXTRA)}
    first, second = (drawn(dataset, epoch) for epoch in (1, 2))
    assert len(first) == 104
    assert 25 < len([pair for pair in first if pair not in plain]) < 60
    assert sorted(first) != sorted(second)
    assert drawn(load(corpus, extra, augment=0.4), 2) == second
    assert all(source.count("<bt>") == 1 for source, _ in first if "eins" not in source.lower())


def test_the_vocabulary_is_built_from_all_folders(corpus: Path) -> None:
    extra = ExtraCorpus(path=str(corpus.parent / "extra"))
    words = {"tokenizer": "whitespace", "vocab_size": None, "min_freq": 1, "byte_fallback": False}
    dataset = load(corpus, extra, **words)
    assert {"eins", "zwei", "kp", "two"} <= {*dataset.source.vocabulary.itos}
    assert dataset.read("val") == MAIN[:1]
    names = [path.relative_to(corpus.parent) for path in dataset.files("train", "val")]
    assert [*map(str, names)] == [
        *("main/train.de", "main/train.en", "main/val.de", "main/val.en"),
        *("extra/train.de", "extra/train.en"),
    ]
    assert len(dataset.files("val")) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, r"data\.extra\.path must be the path"),
        ({"weight": 0.0}, r"data\.extra\.weight must be above 0"),
        ({"weight": 1001.0}, r"data\.extra\.weight must be above 0 and at most 1,000"),
        ({"tag": "Back Translated"}, r"data\.extra\.tag must be up to 20"),
        ({"tag": "unk"}, r"data\.extra\.tag must be .* not a special token"),
        ({"tag": "0x41"}, r"data\.extra\.tag must be .* the first a letter"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExtraCorpus(**{"path": "extra"} | options)


def test_tags_need_subwords_and_a_vocabulary_that_has_them(corpus: Path) -> None:
    extra = ExtraCorpus(path=str(corpus.parent / "extra"), tag="bt")
    with pytest.raises(ConfigError, match=r"data\.tokenizer must be sentencepiece for a data\.ext"):
        TranslationData(tokenizer="whitespace", vocab_size=None, extra=(extra,))
    old = load(corpus)
    config = replace(old.config, extra=(extra,))
    dataset = ParallelCorpus(corpus, config, seed=1, source=old.source, target=old.target)
    with pytest.raises(ConfigError, match="the vocabulary has no tag 'bt'"):
        dataset.training_data(batch_tokens=200, seed=1, max_len=60)


def test_what_is_wrong_with_an_extra_folder_is_named(corpus: Path) -> None:
    with pytest.raises(CorpusError, match=r"nowhere: there is no such folder or file"):
        load(corpus, ExtraCorpus(path="nowhere"))
    (corpus.parent / "extra" / "train.en").write_text("one\n")
    with pytest.raises(CorpusError, match=r"extra/train\.en: 1 lines, but .*train\.de has 25"):
        load(corpus, ExtraCorpus(path=str(corpus.parent / "extra")))


def test_every_way_to_write_extra_folders_is_the_same(tmp_path: Path) -> None:
    wanted = (ExtraCorpus(path="a, b", weight=0.5, tag="bt"), ExtraCorpus(path="c"))
    text = '[{path = "a, b", weight = 0.5, tag = "bt"}, {path = "c"}]'
    config = override(tiny(), [f"data.extra={text}"])
    assert config.data.extra == wanted
    assert from_mapping(TranslationConfig, to_mapping(config)) == config
    path = tmp_path / "config.toml"
    path.write_text(
        '[[data.extra]]\npath = "a, b"\nweight = 0.5\ntag = "bt"\n[[data.extra]]\npath = "c"'
    )
    command = ("train", "translation", "--preset", "tiny", "--show-config")
    shown = lines_of(*command, "--config", path)
    assert shown == lines_of(*command, "--set", f"data.extra={text}")
    path.write_text("\n".join(shown))
    assert lines_of(*command, "--config", path) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corpus", r"data\.extra must be a list such as \[\{key"),
        ("[" * 2000, r"data\.extra must be a list such as"),
        ('"corpus"', r"data\.extra must be a list, not 'corpus'"),
        ('["corpus"]', r"data\.extra\[0\] is a section, not 'corpus'"),
        ('[{paht = "x"}]', r"did you mean 'data\.extra\[0\]\.path'"),
        ("[{weight = 2.0}]", r"data\.extra\.path must be the path of a corpus"),
    ],
)
def test_what_is_not_a_list_of_folders_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(tiny(), [f"data.extra={text}"])


def test_a_run_with_an_extra_folder_resumes_as_if_never_stopped(
    tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    """And it is refused with another extra folder's content."""
    extra = shutil.copytree(tiny_corpora["translation"], tmp_path / "extra")
    text = f'[{{path="{extra}", weight=0.4, tag="bt"}}]'
    short = override(tiny(), [f"data.extra={text}", "train.epochs=1", "train.schedule=constant"])
    long = override(short, ["train.epochs=2"])
    corpus, out = tiny_corpora["translation"], tmp_path / "run"
    train_with("translation", long, corpus, tmp_path / "whole")
    train_with("translation", short, corpus, out)
    sentences = (extra / "train.de").read_text()
    (extra / "train.de").write_text(sentences.replace("Hund", "Hand"))
    with pytest.raises(ChangedConditions, match=r"extra/train\.de"):
        train_with("translation", long, corpus, out, resume=True)
    (extra / "train.de").write_text(sentences)
    train_with("translation", long, corpus, out, resume=True)
    first, second = (load_tensors(tmp_path / name / WEIGHTS_FILE) for name in ("whole", "run"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert read_config(tmp_path / "run", "translation", TranslationConfig).data == long.data
    text = Translator.load(tmp_path / "run", device="cpu").translate("<bt> 🐕 ein Hund")
    assert "<unk>" not in text and "�" not in text
