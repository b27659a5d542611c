"""Parallel corpora: what is read, how it becomes ids, and what is wrong with bad ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import ConfigError, CorpusError
from tasks.translation.config import TranslationData
from tasks.translation.dataset import ParallelCorpus
from tasks.translation.model import build_codecs, load_codecs

WORDS = TranslationData(tokenizer="whitespace", vocab_size=None, min_freq=1)
SPLITS = {
    "train.de": ["ein Hund", "eine Katze rennt", "ein Hund rennt schnell"],
    "train.en": ["a dog", "a cat runs", "a dog runs fast"],
    "val.de": ["ein Tier"],
    "val.en": ["an animal"],
}


def write(folder: Path, files: dict[str, list[str]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def load(folder: Path, config: TranslationData = WORDS, *, seed: int = 1) -> ParallelCorpus:
    return ParallelCorpus(folder, config, seed=seed, save_to=folder / "codecs")


def test_the_vocabulary_is_that_of_the_training_split_alone(tmp_path: Path) -> None:
    dataset = load(write(tmp_path, SPLITS))
    assert dataset.source is dataset.target
    words = {w for name in ("train.de", "train.en") for line in SPLITS[name] for w in line.split()}
    assert set(dataset.source.vocabulary.itos[4:]) == words
    assert "Tier" not in dataset.source.vocabulary


def test_two_vocabularies_are_two(tmp_path: Path) -> None:
    dataset = load(write(tmp_path, SPLITS), config := replace(WORDS, share_vocabulary=False))
    assert "Hund" in dataset.source.vocabulary
    assert "Hund" not in dataset.target.vocabulary
    assert "dog" in dataset.target.vocabulary
    source, target = load_codecs(tmp_path / "codecs", config)
    assert (source.vocabulary, target.vocabulary) == (
        dataset.source.vocabulary,
        dataset.target.vocabulary,
    )
    (ids, translated), *_ = dataset.encoded("train", max_len=50)
    assert source.decode(ids) == "ein Hund"
    assert target.decode(translated) == "a dog"


def test_codecs_that_are_given_are_kept(tmp_path: Path) -> None:
    """A resumed run must not learn another vocabulary for the weights it has."""
    source, target = build_codecs(["ein Hund"], ["a dog"], WORDS, tmp_path / "old")
    dataset = ParallelCorpus(
        write(tmp_path, SPLITS),
        WORDS,
        seed=1,
        save_to=tmp_path / "new",
        source=source,
        target=target,
    )
    assert dataset.source is source
    assert not (tmp_path / "new").exists()
    assert len(dataset.encoded("train", max_len=50)[1][0]) == 3  # unknown words are words


def test_without_codecs_there_must_be_a_place_for_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="save_to"):
        ParallelCorpus(write(tmp_path, SPLITS), WORDS, seed=1)


def test_any_two_languages_will_do(tmp_path: Path) -> None:
    files = {
        "train.zh-CN": ["狗"],
        "train.fr": ["un chien"],
        "val.zh-CN": ["猫"],
        "val.fr": ["un chat"],
        "test.zh-CN": ["猫"],
        "test.fr": ["x"],
    }
    config = replace(WORDS, src="zh-CN", tgt="fr", tokenizer="characters")
    dataset = load(write(tmp_path, files), config)
    assert dataset.read("train") == [("狗", "un chien")]
    assert dataset.splits.names() == ["test", "train", "val"]


def test_splits_are_those_with_both_languages(tmp_path: Path) -> None:
    folder = write(tmp_path, SPLITS | {"test_b.de": ["a"], "test_b.en": ["a"], "test_a.de": ["a"]})
    dataset = load(folder)
    assert dataset.splits.names() == ["test_b", "train", "val"]
    assert dataset.splits.test_split() == "test_b"
    dataset = load(write(folder, {"test_a.en": ["a"]}))
    assert dataset.splits.test_split() == "test_a"


@pytest.mark.parametrize(("there", "missing"), [("de", "en"), ("en", "de")])
def test_a_test_file_without_its_other_side_is_named(
    there: str, missing: str, tmp_path: Path
) -> None:
    """The message said that there is no test split, not which file is missing."""
    dataset = load(write(tmp_path, SPLITS | {f"test.{there}": ["a"]}))
    with pytest.raises(CorpusError, match=rf"test\.{missing}: .* missing, .*test\.{there}"):
        dataset.splits.test_split()


def test_validation_pairs_are_held_out_if_there_are_none(tmp_path: Path) -> None:
    """A corpus without ``val`` files was refused, though the other tasks split their own."""
    lines = {f"train.{x}": [f"{x}{i} {x}" for i in range(50)] for x in ("de", "en")}
    config = replace(WORDS, val_share=0.2)
    dataset = load(write(tmp_path, lines), config)
    train, val = dataset.read("train"), dataset.read("val")
    assert (len(train), len(val)) == (40, 10)
    assert {pair.source for pair in (*train, *val)} == set(lines["train.de"])
    assert all(source.replace("de", "en") == target for source, target in (*train, *val))
    known = set(dataset.source.vocabulary.itos)
    assert {pair.source.split()[0] for pair in train} <= known
    assert not {pair.source.split()[0] for pair in val} & known
    decode = dataset.source.decode
    assert [tuple(map(decode, pair)) for pair in dataset.encoded("train", max_len=9)] == train
    assert len(dataset.encoded("val", max_len=9)) == 10
    assert len(training_pairs(dataset, 1)) == 40
    assert load(tmp_path, config).read("val") == val
    assert load(tmp_path, config, seed=2).read("val") != val


def test_files_of_windows_are_read(tmp_path: Path) -> None:
    (write(tmp_path, SPLITS) / "train.de").write_text("drei Füße – schön\r\n" * 3, "cp1252")
    assert load(tmp_path).read("train")[2] == ("drei Füße – schön", "a dog runs fast")
    with pytest.raises(CorpusError, match=r"train\.de:1: not valid UTF-8"):
        load(tmp_path, replace(WORDS, encoding="utf-8"))


def test_half_a_validation_split_is_named(tmp_path: Path) -> None:
    files = {name: lines for name, lines in SPLITS.items() if name != "val.en"}
    with pytest.raises(CorpusError, match=r"val\.en: cannot read: No such file"):
        load(write(tmp_path, files)).read("val")


def test_a_translation_into_the_same_language_is_refused() -> None:
    """With the source as the target a model learned to copy, in silence."""
    with pytest.raises(ConfigError, match=r"data\.tgt must be another language"):
        TranslationData(src="de", tgt="de")


def test_there_may_be_no_test_split(tmp_path: Path) -> None:
    assert load(write(tmp_path, SPLITS)).splits.test_split() is None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train.de": ["a"]}, r"train\.en: cannot read: No such file"),
        ({"train.en": ["a"]}, r"train\.de: cannot read: No such file"),
        (SPLITS | {"train.en": ["a"]}, r"train\.en: 1 lines, but .*train\.de has 3"),
        (SPLITS | {"train.de": ["a", "", "c"]}, r"train\.de:2: empty line"),
        (SPLITS | {"train.de": [], "train.en": []}, r"train\.de: the file is empty"),
    ],
)
def test_what_is_wrong_is_named(files: dict[str, list[str]], message: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=message):
        load(write(tmp_path, files))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere: there is no such folder or file"):
        load(tmp_path / "nowhere")


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"test_2020\.de: cannot read"):
        load(write(tmp_path, SPLITS)).read("test_2020")


def training_pairs(dataset: ParallelCorpus, epoch: int, max_len: int = 50) -> list[str]:
    data = dataset.training_data(batch_tokens=30, seed=3, max_len=max_len)
    return [str(pair) for batch in data.plan(epoch) for pair in batch]


def test_pairs_too_long_for_the_options_or_the_model_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With data.max_tokens above model.max_len the training died at the first long pair."""
    long = " ".join(["wort"] * 30)
    files = SPLITS | {
        "train.de": ["ein Hund", long, "eine Katze"],
        "train.en": ["a dog", "long", long],
    }
    folder = write(tmp_path, files)
    assert len(training_pairs(load(folder), 1)) == 3
    assert capsys.readouterr().err == ""
    short = TranslationData(tokenizer="whitespace", vocab_size=None, min_freq=1, max_tokens=29)
    assert len(training_pairs(load(folder, short), 1)) == 1
    assert "train: 2 of 3 pairs" in capsys.readouterr().err
    assert len(training_pairs(load(folder), 1, max_len=30)) == 1
    assert "train: 2 of 3 pairs" in capsys.readouterr().err
    assert len(load(folder).encoded("train", max_len=31)) == 3
    assert len(load(folder).encoded("train", max_len=30)) == 1
