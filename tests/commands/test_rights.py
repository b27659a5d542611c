"""The commands as an ordinary user: root may read and write everything, and saw no error."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.command_line import run
from tests.unprivileged import NOBODY, as_nobody

Models = Callable[[str], Path]
TINY = ("--preset=tiny", "--set=train.epochs=1")


class Answer(Exception):
    """The exit code of a command, and its last line on stderr."""


def answer_of(*arguments: object) -> str:
    """Returns the exit code and the last line of a command that an ordinary user calls."""

    def call() -> None:
        result = run(*arguments)
        crash = result.exception
        if crash is not None and not isinstance(crash, SystemExit):
            raise crash
        raise Answer(f"{result.exit_code} {(result.stderr.splitlines() or [''])[-1]}")

    return as_nobody(call).removeprefix("Answer: ")


@pytest.fixture(scope="module", autouse=True)
def imports(tiny_corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Imports all that the commands use, because the other user may not read Python's folders."""
    out, corpus = tmp_path_factory.mktemp("imports") / "run", tiny_corpora["couplet"]
    for command in (
        ("train", "couplet", "--data", corpus, "--out", out, *TINY),
        ("train", "couplet", "--data", corpus, "--out", out, "--resume"),
        ("couplet", "--model", out, "--output", out / "second", "一"),
    ):
        done = run(*command)
        assert done.exit_code == 0, done.stderr


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Callable[[Path, int], Path]]:
    """A function that changes the mode of a path until the end of the test."""
    # pytest's own folders: a worker of several has one more.
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    changed: list[Path] = []

    def close(path: Path, mode: int) -> Path:
        path.chmod(mode)
        changed.append(path)
        return path

    yield close
    for path in changed:
        path.chmod(0o755)


def assert_refused(answer: str, path: Path) -> None:
    """By this program, or already by click, in one line that names the path."""
    assert answer[:9] in ("1 error: ", "2 error: "), answer
    assert str(path) in answer
    assert "Permission denied" in answer or "not readable" in answer


Close = Callable[[Path, int], Path]


@pytest.fixture
def finished(tiny_models: Models, tmp_path: Path) -> Path:
    """A run of an ordinary user."""
    folder = tmp_path / "run"
    shutil.copytree(tiny_models("couplet"), folder)
    for path in (folder, *folder.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
    return folder


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444, 0o555])
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_folder_without_rights(
    finished: Path, tiny_corpora: dict[str, Path], closed: Close, mode: int, resume: bool
) -> None:
    corpus = closed(shutil.copytree(tiny_corpora["couplet"], finished.with_name("data")), 0o755)
    shutil.rmtree(finished / "training")
    (finished / "metrics.json").unlink()
    if not resume:
        (finished / "config.json").unlink()
    closed(finished, mode)
    options = ("--resume",) if resume else TINY
    answer = answer_of("train", "couplet", "--data", corpus, "--out", finished, *options)
    if resume and mode == 0o555:  # it can be read that there is no state
        assert answer.startswith(f"1 error: {finished}: nothing to resume")
        return
    assert_refused(answer, finished)


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444])
@pytest.mark.parametrize("part", ["", "train", "val", "test", "train/in.txt"])
def test_a_corpus_without_rights(
    tiny_corpora: dict[str, Path], tmp_path: Path, closed: Close, mode: int, part: str
) -> None:
    corpus = shutil.copytree(tiny_corpora["couplet"], tmp_path / "data")
    is_readable = mode == 0o444 and part.endswith(".txt")
    if mode == 0o111 and not part.endswith(".txt"):
        return  # its files can be opened, as long as nobody lists it
    for path in (corpus, *corpus.rglob("*")):
        closed(path, 0o755)
    closed(corpus / part, mode)
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o777)
    out = tmp_path / "out" / "run"
    answer = answer_of("train", "couplet", "--data", corpus, "--out", out, *TINY)
    if is_readable:
        assert answer.startswith("0 ")
        return
    assert_refused(answer, corpus / part)
    assert not out.exists()


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o555])
def test_an_output_folder_without_rights(
    tiny_models: Models, tmp_path: Path, closed: Close, mode: int
) -> None:
    model = shutil.copytree(tiny_models("couplet"), tmp_path / "model")
    folder = closed(tmp_path, 0o755) / "folder"
    folder.mkdir()
    closed(folder, mode)
    for arguments in (
        ("couplet", "--model", model, "--output", folder / "file", "一"),
        ("train", "couplet", "--data", model, "--out", folder / "run", *TINY),
        ("export", "--out", folder / "exported"),
        ("plot", model, "--out", folder / "curve.png"),
    ):
        answer = answer_of(*arguments)
        assert answer[:2] in ("1 ", "2 "), (arguments, answer)
        assert answer[2:].startswith("error: "), (arguments, answer)
        if arguments[0] == "couplet":
            assert answer.endswith("Permission denied"), answer


LONG = "n" * 256


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "couplet", "--out", LONG),
        ("train", "couplet", "--out", LONG, "--resume"),
        ("train", "couplet", "--data", LONG),
        ("train", "couplet", "--config", LONG),
        ("couplet", "--output", LONG, "一"),
        ("couplet", "--input", LONG),
        ("couplet", "--model", LONG, "一"),
        ("evaluate", "couplet", "--model", LONG),
        ("evaluate", "couplet", "--data", LONG),
        ("export", "--out", LONG),
        ("plot", LONG),
    ],
)
def test_a_name_that_is_too_long_is_an_error_in_one_line(
    arguments: tuple[str, ...], in_tmp: Path
) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), arguments
    assert result.exit_code in (1, 2)
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert list(in_tmp.iterdir()) == []
