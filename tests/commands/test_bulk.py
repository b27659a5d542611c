"""``bulk``: whole files on several workers. Ray is slow to start: one test runs it, and kills."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import MonkeyPatch

import cli
from core.errors import UserError
from tasks.commands import bulk
from tasks.task import task_named
from tests.commands.command_line import error_of, run

pa = pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")
import pyarrow.parquet as pq  # noqa: E402

GERMAN = ["Ein Hund rennt am Strand.", "", "Zwei Kinder lachen."]
FIRST_LINES = ["春风送暖千山秀", "晚风摇树树还挺"]


class LocalRay:
    """Ray in one process: an actor computes when it is asked."""

    @staticmethod
    def remote(kind: Any) -> Any:
        def start(*arguments: Any) -> Any:
            worker = kind(*arguments)
            return SimpleNamespace(answer=SimpleNamespace(remote=worker.answer))

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=start))

    @staticmethod
    def cluster_resources() -> dict[str, float]:
        return {"CPU": 2.0}

    @staticmethod
    def get(answer: Any) -> Any:
        return answer


@pytest.fixture
def local(monkeypatch: MonkeyPatch) -> None:
    from contextlib import nullcontext

    monkeypatch.setattr(bulk, "ray_at", lambda address: nullcontext(LocalRay()))
    monkeypatch.setattr(bulk, "CHUNK_ROWS", 2)


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.usefixtures("local")
def test_every_kind_of_file_becomes_one_with_the_answers(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    write_lines(source / "a.txt", GERMAN)
    rows = (f'{n},"{t}"' for n, t in enumerate(GERMAN))
    write_lines(source / "deep" / "b.csv", ["n,text", *rows])
    write_lines(source / "c.jsonl", [json.dumps({"n": n, "text": t}) for n, t in enumerate(GERMAN)])
    pq.write_table(pa.table({"n": [0, 1, 2], "text": GERMAN}), source / "d.parquet")
    write_lines(source / "not-a-table.md", ["# no"])

    done = run("bulk", "translate", source, "--output", out, "--beam", "1")
    assert done.exit_code == 0
    assert re.search(r"12 rows of 4 files \(.* a second, \d unfamiliar\)", done.stderr)

    names = ["a.parquet", "c.parquet", "d.parquet", "deep/b.parquet"]
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*.*")) == names
    expected = [found.text for found in task_named("translation").load().predict(GERMAN, beam=1)]
    for name in names:
        table = pq.read_table(out / name)
        assert table.column("translation").to_pylist() == expected
        assert table.column("text").to_pylist() == GERMAN
        assert set(table.column_names) >= {"score", "confidence", "familiarity"}
    assert pq.read_table(out / "d.parquet").column_names[:2] == ["n", "text"]


@pytest.mark.usefixtures("local")
def test_either_engine_translates(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="pip install '.[export]'")
    write_lines(tmp_path / "lines.txt", GERMAN)
    options = ("--beam", "1", "--engine", "ctranslate2")
    out = ("--output", tmp_path / "out", "--format", "text")
    assert run("bulk", "translate", tmp_path / "lines.txt", *out, *options).exit_code == 0
    single = run("translate", "--input", tmp_path / "lines.txt", *options).stdout
    assert (tmp_path / "out/lines.txt").read_text("utf-8") == single


@pytest.mark.usefixtures("local")
def test_answers_are_those_of_the_commands(tmp_path: Path) -> None:
    write_lines(tmp_path / "lines.txt", FIRST_LINES * 2)
    news = ["Stocks fell on Monday.", "The cup final ended in a draw."]
    write_lines(tmp_path / "news.csv", ["title,label", *(f"{text},mine" for text in news)])
    pairs = [{"de": GERMAN[0], "en": "A dog runs on the beach."}, {"de": "Ja.", "en": "Yes."}]
    write_lines(tmp_path / "pairs.jsonl", list(map(json.dumps, pairs)))
    out = ["--output", tmp_path / "out", "--format"]

    beam = ("--beam", "2")  # ranked candidates would take seconds
    assert run("bulk", "couplet", tmp_path / "lines.txt", *beam, *out, "text").exit_code == 0
    answers = run("couplet", *beam, "--input", tmp_path / "lines.txt").stdout
    assert (tmp_path / "out/lines.txt").read_text("utf-8") == answers

    # A column of one's own keeps its name.
    news_command = ["bulk", "classify", tmp_path / "news.csv", "--text", "title"]
    assert run(*news_command, *out, "json").exit_code == 0
    labels = [row["label_"] for row in rows_of(tmp_path / "out/news.jsonl")]
    assert labels == task_named("classification").load().classify(news)  # type: ignore[attr-defined]

    score = ["bulk", "score", tmp_path / "pairs.jsonl", "--text", "de,en"]
    assert run(*score, *out, "json").exit_code == 0
    write_lines(tmp_path / "pairs.tsv", [f"{pair['de']}\t{pair['en']}" for pair in pairs])
    single = run("score", "translation", "--input", tmp_path / "pairs.tsv", "--json").stdout
    for row, line in zip(rows_of(tmp_path / "out/pairs.jsonl"), single.splitlines(), strict=True):
        assert row["log_prob"] == pytest.approx(json.loads(line)["log_prob"], abs=1e-4)


@pytest.mark.usefixtures("local")
def test_bad_rows_and_files_stop_nothing_and_a_second_start_does_the_rest(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    write_lines(source / "a.jsonl", ['{"text": "春风送暖千山秀"}', '{"text": "hello"}', "{broken"])
    (source / "b.parquet").write_bytes(b"nonsense")
    write_lines(source / "c.csv", ["line", "春风送暖千山秀"])
    write_lines(source / "d.jsonl", ["春风送暖千山秀"])
    command = ["bulk", "couplet", source, "--output", out, "--format", "json", "--beam", "1"]

    first = run(*command)

    assert first.exit_code == 1
    assert "a.jsonl:2: refused: " in first.stderr
    assert "a.jsonl:3: refused: " in first.stderr
    assert "b.parquet: after row 0: " in first.stderr
    assert "c.csv: after row 0: no column 'text' among line: see --text" in first.stderr
    hint = "no line is a JSON object with fields; lines of text belong in a .txt file"
    assert f"d.jsonl: after row 0: {hint} (the first: Expecting value: line 1" in first.stderr
    assert first.stderr.endswith("error: 2 rows are refused, 3 files are left out\n")
    assert [path.name for path in out.iterdir()] == ["a.jsonl"]
    assert [bool(row["second"]) for row in rows_of(out / "a.jsonl")] == [True, False, False]

    (source / "b.parquet").unlink()
    (source / "d.jsonl").unlink()
    write_lines(source / "c.csv", ["text", "春风送暖千山秀"])
    changed = (out / "a.jsonl").stat().st_mtime_ns
    again = run(*command)
    assert again.exit_code == 0
    assert re.search(
        r"1 rows of 1 files \([\d.]+ a second\); 1 files were there already", again.stderr
    )
    assert (out / "a.jsonl").stat().st_mtime_ns == changed


@pytest.mark.usefixtures("local")
def test_rows_whose_columns_change_are_no_parquet_file(tmp_path: Path) -> None:
    rows = [{"text": "春风送暖千山秀"}] * 2 + [{"text": "春风送暖千山秀", "more": 1}]
    write_lines(tmp_path / "a.jsonl", list(map(json.dumps, rows)))
    command = ["bulk", "couplet", tmp_path / "a.jsonl", "--output", tmp_path / "out", "--beam", "1"]
    assert run(*command).exit_code == 1
    assert not list((tmp_path / "out").iterdir())
    assert run(*command, "--format", "json").exit_code == 0
    assert rows_of(tmp_path / "out/a.jsonl")[2]["more"] == 1


def test_what_cannot_begin_is_refused_at_once(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    out = ["--output", tmp_path / "out"]
    assert "no files there" in error_of(1, "bulk", "translate", tmp_path, *out)
    write_lines(tmp_path / "a.txt", ["x"])
    write_lines(tmp_path / "a.csv", ["text", "x"])
    assert "several files" in error_of(2, "bulk", "translate", tmp_path / "a.*", *out)
    one = tmp_path / "a.txt"
    message = error_of(1, "bulk", "translate", one, *out, "--model", tmp_path / "no")
    assert str(tmp_path / "no") in message
    assert "does not search" in error_of(2, "bulk", "classify", one, *out, "--beam", "2")
    assert "one engine" in error_of(2, "bulk", "classify", one, *out, "--int8")
    assert "tones" in error_of(2, "bulk", "translate", one, *out, "--tones", "off")
    assert "two columns" in error_of(2, "bulk", "score", one, *out)
    assert "--beam" in error_of(2, "bulk", "translate", one, *out, "--beam", "0")
    assert "s4://" in error_of(1, "bulk", "translate", "s4://bucket/a.txt", *out)
    with monkeypatch.context() as patch:  # a real connection would leave threads behind
        patch.setattr("ray.init", no_cluster)
        message = error_of(1, "bulk", "translate", one, *out, "--address", "ray://nowhere:1")
    assert message == "error: ray://nowhere:1: no Ray cluster: timed out"


def no_cluster(**settings: Any) -> None:
    raise ConnectionError("timed out")


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """Also where the user has no home: Ray wrote a secret there, and did not start."""
    lines = [f"{sentence} {number}" for number in range(200) for sentence in GERMAN]
    write_lines(tmp_path / "many.txt", lines)
    command = [sys.executable, cli.__file__, "bulk", "translate", tmp_path / "many.txt"]
    options = ["--output", tmp_path / "out", "--format", "text", "--workers", "2", "--beam", "1"]
    bare = {"HOME": os.devnull, "RAY_GRAFANA_HOST": "", "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        [*map(str, command), *map(str, options)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | bare,
        start_new_session=True,
    ) as process:
        victim = _busy_worker(process)
        os.kill(victim, signal.SIGKILL)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = (tmp_path / "out/many.txt").read_text("utf-8").splitlines()
    request = {"beam": 1}
    assert found == [
        each.text for each in task_named("translation").load().predict(lines, **request)
    ]


def _busy_worker(process: "subprocess.Popen[str]") -> int:
    """Returns a process of Ray that computes answers, once there is one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                is_worker = path.read_bytes().startswith(b"ray::Worker.answer")
            except OSError:
                continue
            if is_worker:
                return int(path.parent.name)
        time.sleep(0.05)
    raise AssertionError("no worker has begun")


def test_a_machine_that_is_lost_is_one_line(monkeypatch: MonkeyPatch) -> None:
    """On a busy machine Ray gave its own node up: ``bulk`` ended in a traceback."""
    monkeypatch.setattr(ray, "init", lambda **settings: None)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    message = "local: the Ray cluster failed; start again: The actor"
    with pytest.raises(UserError, match=message), bulk.ray_at("local"):
        raise ray.exceptions.ActorDiedError()
