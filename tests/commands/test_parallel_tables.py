"""Own parallel text, as people have it: tables and translation memories, in all commands."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from tests.commands.command_line import error_of, run

Models = Callable[[str], Path]


def lines_of(*command: object) -> list[str]:
    """Returns the lines on stdout of a command that must succeed; stderr has notes on the table."""
    result = run(*command)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, tiny_corpora: dict[str, Path]) -> Path:
    """The tiny corpus as Excel writes it, with rows that nothing can be learned from."""
    corpus, folder = tiny_corpora["translation"], tmp_path_factory.mktemp("pairs")
    sides = [(corpus / f"train.{x}").read_text(encoding="utf-8").splitlines() for x in ("de", "en")]
    pairs = [*zip(*sides, strict=True)]
    rows = [*pairs, *pairs[:9], ("OK", "OK"), ("", "nothing"), ("<br>", "...")]
    with (folder / "pairs.csv").open("w", newline="", encoding="cp1252") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(("id", "en", "de"))
        writer.writerows((number, en, de) for number, (de, en) in enumerate(rows))
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{escape(de)}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>{escape(en)}</seg></tuv></tu>\n'
        for de, en in rows
    )
    tmx = f'<tmx version="1.4"><body>{units}</body></tmx>'
    (folder / "memory.tmx").write_text(tmx, encoding="utf-8")
    return folder / "pairs.csv"


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    out = table.parent / "model"
    done = run(
        "train", "translation", "--preset=tiny", "--data", table, "--out", out, "--src=de",
        "--tgt=en", "--set=train.epochs=1", "--set=data.vocab_size=400",
        "--set=data.test_share=0.1",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "pairs.csv: 3 of " in done.stderr and "1 with equal sides" in done.stderr
    return out


def test_a_model_is_trained_on_a_table_and_measured_on_its_test_rows(
    model: Path, table: Path
) -> None:
    trained = json.loads((model / "metrics.json").read_text())["test"]
    command = ("evaluate", "translation", "--model", model, "--beam=1", "--json", "--data")
    report = json.loads("\n".join(lines_of(*command, table)))
    assert (report["split"], report["sentences"]) == ("test", trained["sentences"])
    assert (report["sha256"], report["bleu"]) == (trained["sha256"], trained["bleu"])
    memory = table.with_name("memory.tmx")
    of_memory = json.loads("\n".join(lines_of(*command, memory)))
    assert of_memory["split"] == "all"
    assert of_memory["sentences"] > 8 * trained["sentences"]
    several = json.loads("\n".join(lines_of(*command, table, "--data", memory)))
    assert several == {str(table): report, str(memory): of_memory}
    shown = lines_of(*command[:-2], "--data", table, "--data", memory)
    assert "  ".join(shown[0].split()[:5]) == "sentences  BLEU  chrF  TER  loops"
    first = [line.split()[0] for line in shown[1:]]
    assert first == [str(table), str(memory), "BLEU", "chrF", "TER"]
    assert "there is no column 'fr'" in error_of(1, *command, table, "--tgt", "fr")
    assert "translation has no --label" in error_of(2, *command, table, "--label", "x")


def test_equal_sources_are_on_one_side(model: Path, table: Path) -> None:
    from tasks.runs.checkpoint_folder import read_config
    from tasks.translation.config import TranslationConfig
    from tasks.translation.sources import open_pairs

    config = read_config(model, "translation", TranslationConfig)
    pairs = open_pairs(table, config.data, seed=config.train.seed)
    sides = [{pair.source for pair in pairs.read(split)} for split in ("train", "val", "test")]
    assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
    assert sum(len(pairs.read(split)) for split in ("train", "val", "test")) == len(
        pairs.read("all")
    )


def test_pairs_of_a_table_are_scored(model: Path, table: Path, tmp_path: Path) -> None:
    command = ("score", "translation", "--model", model, "--src", "de", "--tgt", "en", "--data")
    found = lines_of(*command, table)
    assert found == lines_of(*command, table.with_name("memory.tmx"))
    first = json.loads(lines_of(*command, table, "--json")[0])
    (tmp_path / "a.tsv").write_text(f"{first['source']}\t{first['target']}\n", encoding="utf-8")
    plain = ("score", "translation", "--model", model, "--input", tmp_path / "a.tsv")
    assert lines_of(*plain) == found[:1]
    message = "--src and --tgt go together, and --data needs them"
    assert message in error_of(2, "score", "translation", "--data", table)


def test_a_corpus_is_made_of_a_column(model: Path, table: Path, tmp_path: Path) -> None:
    command = ("synthesize", "--model", model, "--beam=1", "--max-length=9", "--input")
    for name in ("pairs.csv", "memory.tmx"):
        lines_of(*command, table.with_name(name), "--out", tmp_path / name)
    made = [(tmp_path / name / "train.de").read_bytes() for name in ("pairs.csv", "memory.tmx")]
    assert made[0] == made[1] != b""
    about = json.loads((tmp_path / "pairs.csv" / "synthesis.json").read_text())
    assert about["column"] == "de"
    message = error_of(1, *command, table, "--text", "fr", "--out", tmp_path / "other")
    assert "there is no column 'fr'" in message


def test_a_table_comes_back_with_translations(
    tiny_models: Models, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    command = ("translate", "--model", tiny_models("translation"), "--input", table, "--text=de")
    result = run(*command, "--output", out)
    assert result.exit_code == 0
    assert "read as cp1252" in result.stderr
    content = out.read_text(encoding="utf-8")
    assert content.startswith("\ufeffid;en;de;translation\n")
    rows = [*csv.DictReader(content[1:].splitlines(), delimiter=";")]
    texts = [row["de"] for row in rows[:5]]
    assert [row["translation"] for row in rows[:5]] == lines_of(*command[:3], *texts)
    assert run(*command, "--output", tmp_path / "out.tsv").exit_code == 0
    tabs = (tmp_path / "out.tsv").read_text("utf-8-sig").splitlines()
    assert [*csv.DictReader(tabs, delimiter="\t")] == rows
    before = csv.DictReader(table.read_text("cp1252").splitlines(), delimiter=";")
    assert [*before] == [{k: v for k, v in row.items() if k != "translation"} for row in rows]
    mail = tmp_path / "mail.csv"
    mail.write_text(f'de\n"{texts[0]}\n\n- {texts[1]}"\n', "utf-8")
    of_mail = f"{rows[0]['translation']}\n\n- {rows[1]['translation']}"
    lines = run(*command[:4], mail, "--text=de").stdout.splitlines(keepends=True)
    assert [row["translation"] for row in csv.DictReader(lines)] == [of_mail]
    records = [json.loads(line) for line in lines_of(*command, "--json", "--n-best=2", "--beam=2")]
    assert [record["input"] for record in records[:5]] == texts
    assert len(records[0]["hypotheses"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text=fr",), "there is no column 'fr'; its columns: id, en, de"),
        (
            ("--text=de", "--n-best=2", "--beam=2"),
            "--n-best is for texts, or for tables with --json",
        ),
        (("--text=de", "--output=t.xlsx"), "--output must have another suffix than .xlsx"),
        (("--text=de", "--output=t.csv", "--json"), "than .csv: the results are JSON Lines"),
        (("--text=de", "--encoding=nonsense"), "--encoding must be an encoding such as cp1252"),
        (("--text=de", "--delimiter=::"), "--delimiter must be one character"),
        (("--delimiter=;",), "are for tables: add --text"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: tuple[str, ...], message: str, tiny_models: Models, table: Path
) -> None:
    model = tiny_models("translation")
    code = 1 if "column" in message else 2
    assert message in error_of(code, "translate", "--model", model, "--input", table, *options)
