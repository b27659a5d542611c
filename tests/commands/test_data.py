"""The commands for corpora: data list, fetch, verify."""

import re
import shutil
from pathlib import Path

import pytest

from data import fetching
from tests.commands.command_line import error_of, lines_of, run

Corpora = dict[str, Path]


def test_data_list_shows_all_corpora(in_tmp: Path) -> None:
    text = "\n".join(lines_of("data", "list"))
    for fact in ("multi30k: ", "ag_news: ", "couplet: ", "https://", "license", "citation"):
        assert fact in text
    assert text.count("(not here)") == 3


def test_a_corpus_is_verified(tiny_corpora: Corpora, in_tmp: Path) -> None:
    assert "ag_news is not there" in error_of(1, "data", "verify", "ag_news")
    folder = in_tmp / "corpora" / "ag_news"
    shutil.copytree(tiny_corpora["classification"], folder)
    found = lines_of("data", "verify", "ag_news")
    assert str(folder) in found
    assert any(re.match(r"ok +train.csv +part of the published set", line) for line in found)
    assert "\n".join(lines_of("data", "list")).count("(not here)") == 2

    (folder / "test.csv").write_text('"other","text')
    result = run("data", "verify", "ag_news")
    assert result.exit_code == 1
    assert re.search(r"^WRONG +test.csv +row 1: not valid CSV", result.stdout, re.MULTILINE)
    assert result.stderr == f"error: {folder}: 1 of 3 files are not as they should be\n"


def test_a_fetch_shows_its_progress_and_a_report(
    tiny_corpora: Corpora, in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name: str, *, show_progress: bool) -> list[fetching.FileReport]:
        assert show_progress
        shutil.copytree(tiny_corpora["couplet"], in_tmp / "corpora" / name)
        return fetching.verify(name)

    monkeypatch.setattr(fetching, "fetch", fetch)
    assert any(line.startswith("ok ") for line in lines_of("data", "fetch", "couplet"))
