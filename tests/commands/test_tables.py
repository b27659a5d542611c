"""A user's own data from the command line: train, classify, evaluate, explain."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from data.tables import open_table
from tasks.classification.predict import Classifier
from tests.commands.command_line import error_of, lines_of, run

Models = Callable[[str], Path]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, tiny_corpora: dict[str, Path]) -> Path:
    """The tiny corpus as a table with other columns and another delimiter."""
    folder = tiny_corpora["classification"]
    names = (folder / "classes.txt").read_text().split()
    path = tmp_path_factory.mktemp("table") / "my.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(("id", "head line", "body", "topic"))
        for split in ("train", "test"):
            with (folder / f"{split}.csv").open(newline="") as rows:
                for number, (label, title, text) in enumerate(csv.reader(rows)):
                    writer.writerow((number, title, f"{text}\nend;", names[int(label) - 1]))
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    out = table.parent / "model"
    done = run(
        "train", "classification", "--preset=tiny", "--data", table, "--out", out,
        "--text=head line,body", "--label=topic", "--set=train.epochs=8",
        "--set=train.learning_rate=0.005", "--set=data.vocab_size=100",
        "--set=train.label_smoothing=0",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    return out


def test_a_run_leaves_a_report_and_the_names_of_the_columns(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    assert config["data"]["text"] == ["head line", "body"]
    assert config["data"]["label"] == "topic"
    report = json.loads((model / "report.json").read_text())
    assert report["texts"] == 15
    assert (
        report["accuracy"] == json.loads((model / "metrics.json").read_text())["test"]["accuracy"]
    )
    assert set(report["words"]) == {"World", "Sports", "Business"}
    assert (model / "report.html").read_text().startswith("<!doctype html>")


def test_a_table_gets_two_columns(model: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    command = ("classify", "--model", model, "--text", "head line,body", "--input", table)
    lines_of(*command, "--output", out)
    before = [dict(record) for _, record in open_table(table).rows()]
    after = [dict(record) for _, record in open_table(out).rows()]
    assert [list(row)[:4] for row in after] == [list(row) for row in before]
    assert [list(row.values())[:4] for row in after] == [list(row.values()) for row in before]
    right = sum(row["label"] == row["topic"] for row in after) / len(after)
    assert right > 0.9
    texts = [f"{row['head line']} {row['body']}" for row in before[:5]]
    alone = lines_of("classify", "--model", model, *texts)
    assert [line.split("\t")[0] for line in alone] == [row["label"] for row in after[:5]]
    assert all(abs(float(line.split("\t")[1]) - float(row["probability"])) < 2e-4
               for line, row in zip(alone, after, strict=False))  # fmt: skip


def test_rows_without_text_keep_their_place_and_thresholds_decide(
    model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "in.jsonl"
    texts = ("goal coach league striker final medal", None, "bank oil shares prices profit market")
    rows = [{"body": text} for text in texts[:2]] + [{"label": "x", "body": texts[2]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("classify", "--model", model, "--text", "body", "--input", path)
    found = [json.loads(line) for line in lines_of(*command)]
    labels = [row["predicted_label"] for row in found]
    assert labels == ["Sports", "", "Business"]
    assert found[2]["label"] == "x"
    found = [json.loads(line) for line in lines_of(*command, "--threshold", "World=0.000001")]
    assert [row["predicted_label"] for row in found] == ["World", "", "World"]
    chosen = ("--threshold", "World=0.000001", "--top", 2, texts[0])
    assert lines_of("classify", "--model", model, *chosen)[0].split("\t")[::2] == [
        "World",
        "Sports",
    ]


def test_a_table_that_was_trained_on_is_measured_on_its_test_rows(
    model: Path, table: Path, tmp_path: Path
) -> None:
    command = ("evaluate", "classification", "--model", model, "--json", "--data")
    report = json.loads("\n".join(lines_of(*command, table)))
    assert (report["split"], report["texts"]) == ("test", 15)
    saved = json.loads((model / "metrics.json").read_text())["test"]
    assert report["accuracy"] == saved["accuracy"]
    other = tmp_path / "other.tsv"
    rows = {
        "goal coach league striker final medal": "Sports",
        "bank oil shares prices profit": "Business",
        "border army treaty embassy president": "World",
    }
    lines = "".join(f"{text}\t{label}\n" for text, label in rows.items())
    other.write_text(f"text\tclass\n{lines}")
    columns = ("--text", "text", "--label", "class", "--report", tmp_path / "report")
    report = json.loads("\n".join(lines_of(*command, other, *columns)))
    assert (report["split"], report["texts"], report["accuracy"]) == ("all", 3, 1.0)
    assert (tmp_path / "report" / "report.html").exists()


def test_explanations_as_text_json_and_html(model: Path) -> None:
    command = ("classify", "--model", model, "--explain", "goal market coach", "")
    (line, empty) = lines_of(*command)
    label, probability, words = line.split("\t")
    assert [word.partition("(")[0] for word in words.split()] == ["goal", "market", "coach"]
    assert empty == ""
    record = json.loads(lines_of(*command, "--json")[0])
    assert record["label"] == label
    assert [word["word"] for word in record["explanation"]] == ["goal", "market", "coach"]
    assert 0.0 <= record["familiarity"] <= 1.0
    page = lines_of(*command, "--html")
    assert page[0].startswith("<!doctype html>")
    assert page[1].startswith(f"<p><b>{label}</b> {probability}: <span")


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (1, ("--text", "bdy"), "no column 'bdy'; did you mean 'body'?"),
        (2, ("--text", "body", "--threshold", "Sprots=0.5"), "did you mean 'Sports'?"),
        (2, ("--text", "body", "--threshold", "Sports"), "--threshold must be LABEL=NUMBER"),
        (2, ("--text", "body", "--explain"), "--explain and --top are for texts"),
        (2, ("--model", ""), "'--model': the path is empty"),
        (2, ("--no-header",), "--delimiter and --header are for tables: add --text"),
        (2, ("--html",), "--html is for --explain"),
        (2, ("--text", "body", "--delimiter", "::"), "must be one character"),
        (2, ("--early-exit", "0.9"), "--early-exit needs a model with n-grams"),
        (2, ("--early-exit", "0.9", "--explain"), "leave out --early-exit"),
        (2, ("--early-exit", "0"), "'--early-exit': 0.0 is not in the range"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    code: int, options: tuple[str, ...], message: str, model: Path, table: Path
) -> None:
    assert message in error_of(code, "classify", "--model", model, "--input", table, *options)


def test_lines_of_a_table_are_texts_and_that_is_said(model: Path, table: Path) -> None:
    """Without --text, whole rows were classified, the header too, without a word."""
    result = run("classify", "--model", model, "--input", table)
    assert result.exit_code == 0
    assert "every line is a text; for the rows of a table, add --text COLUMN" in result.stderr
    message = "t.xlsx is no file of lines; for the rows of a table, add --text COLUMN"
    assert message in error_of(2, "classify", "--model", model, "--input", "t.xlsx")


def test_without_test_rows_the_training_rows_are_not_measured(table: Path, tmp_path: Path) -> None:
    table_of, out = ("classification", "--data", table), tmp_path / "run"
    options = ("--text=body", "--label=topic", "--set=data.test_share=0", "--set=train.epochs=1")
    assert run("train", *table_of, "--preset=tiny", *options, "--out", out).exit_code == 0
    message = error_of(1, "evaluate", *table_of, "--model", out)
    assert "no test split; name one of: all, train, val" in message


def test_tables_are_not_for_couplets(table: Path, tiny_models: Models) -> None:
    train = ("train", "couplet", "--data", table, "--text", "body")
    assert "couplet has no --text" in error_of(2, *train)
    assert "couplet has no --src" in error_of(2, "train", "couplet", "--src", "de")
    result = run("couplet", "--model", tiny_models("couplet"), "--input", table)
    assert "every line is a text\n" in result.stderr
    assert "couplet has no --report" in error_of(2, "evaluate", "couplet", "--report", "x")


def test_cleaning_is_of_the_news_and_of_models_of_version_1(
    model: Path, tiny_models: Models, tmp_path: Path
) -> None:
    """``C:\\temp`` became ``C: temp``, and ``<p>hi</p>`` became ``hi``, in all texts of users."""

    def read_by(folder: Path) -> str:
        return Classifier.load(folder, device="cpu").as_read(r"C:\temp <p>hi</p>")

    def stored(folder: Path) -> object:
        return json.loads((folder / "config.json").read_text())["data"]["clean"]

    news = tiny_models("classification")
    assert (stored(model), read_by(model)) == (False, r"C:\temp <p>hi</p>")
    assert (stored(news), read_by(news)) == (True, "C: temp hi")
    old = shutil.copytree(model, tmp_path / "old")
    config = json.loads((old / "config.json").read_text())
    del config["data"]["clean"]
    (old / "config.json").write_text(json.dumps(config))
    assert read_by(old) == "C: temp hi"
