"""Atomic writes: the old file or the new one, never something between."""

import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from core.errors import UserError
from core.storage import files
from core.storage.files import (
    atomic_write,
    exists,
    is_file,
    is_folder,
    new_folder,
    read_json,
    remove_partial_files,
    write_json,
    write_text,
)
from tests.unprivileged import as_nobody


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_clean_exit_puts_the_file_in_place(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "weights.bin"
    with atomic_write(target) as temporary:
        assert temporary.suffix == ".bin" and not target.exists()
        temporary.write_bytes(b"42")
    assert target.read_bytes() == b"42"
    assert names_in(target.parent) == ["weights.bin"]


def test_an_error_in_the_body_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(target) as temporary:
        temporary.write_text("half of the n")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("write", [atomic_write, new_folder])
def test_a_signal_at_any_moment_leaves_nothing(
    write: Callable[[Path], AbstractContextManager[Path]], tmp_path: Path
) -> None:
    """Python handles signals between two of its instructions; at some, the file was left."""
    steps = left = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        frame.f_trace_opcodes = frame.f_code.co_filename == files.__file__
        left -= event == "opcode"
        if left == 0:
            raise KeyboardInterrupt
        return trace

    while left <= 0:
        steps = left = steps + 1
        sys.settrace(trace)
        with suppress(KeyboardInterrupt), write(tmp_path / str(steps)):
            pass
        sys.settrace(None)
        assert not list(tmp_path.glob(".*"))


def test_what_a_killed_writer_left_can_be_told_and_removed(tmp_path: Path) -> None:
    others = {".hidden.partial", ".a.txt.partial.bak", "a.partial.txt", ".0123456789ab.partial"}
    others |= {".tmp", ".tmpx.txt", "tmpAbc123", ".tmpAbc1234"}
    for name in others:
        (tmp_path / name).touch()
    for name in ("weights.safetensors", "no_suffix", ".hidden", "x" * 90 + "." + "y" * 90):
        with atomic_write(tmp_path / name) as temporary:
            left = temporary.name
        (tmp_path / name).rename(tmp_path / left)
    (tmp_path / f".folder.{'0' * 12}.partial").mkdir()
    assert len(names_in(tmp_path)) == len(others) + 5
    remove_partial_files(tmp_path)
    assert set(names_in(tmp_path)) == others | {f".folder.{'0' * 12}.partial"}
    remove_partial_files(tmp_path / "none")


def test_the_file_has_the_permissions_of_an_ordinary_new_file(tmp_path: Path) -> None:
    """A file made by way of `tempfile` could be read by nobody but its owner."""
    (tmp_path / "ordinary").touch()
    write_text(tmp_path / "atomic", "x")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "atomic")}
    assert len(modes) == 1


def test_a_full_disk_is_a_user_error_that_names_the_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    full = pytest.raises(UserError, match=r"a\.txt: cannot write: No space left")
    with full, atomic_write(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert names_in(tmp_path) == []


def test_other_work_in_the_body_fails_under_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "a.txt"):
        (tmp_path / "another").read_text()


@pytest.mark.parametrize("place", ["", "a_file/below.txt"])
def test_what_cannot_be_a_file_is_a_user_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "a_file").touch()
    with pytest.raises(UserError, match="cannot write"), atomic_write(tmp_path / place):
        pass


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no /dev/null here")
def test_a_device_is_not_replaced_by_a_file() -> None:
    with pytest.raises(UserError, match="not a regular file"), atomic_write("/dev/null"):
        pass
    assert not Path("/dev/null").is_file()


def test_a_folder_is_there_with_all_that_is_in_it(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    with new_folder(target) as temporary:
        (temporary / "a.txt").write_text("a")
        assert not target.exists()
    assert names_in(target) == ["a.txt"]
    assert names_in(target.parent) == ["folder"]


def test_a_folder_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    """Made meanwhile by another, say."""
    target = tmp_path / "folder"
    match = "folder: cannot write"
    with pytest.raises(UserError, match=match), new_folder(target) as temporary:
        (temporary / "a.txt").write_text("ours")
        target.mkdir()
        (target / "a.txt").write_text("theirs")
    assert names_in(tmp_path) == ["folder"]
    assert (target / "a.txt").read_text() == "theirs"


def test_json_comes_back_with_its_characters_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    value = {"text": "春 Straße\u2028", "numbers": [1, 2.5, None]}
    write_json(path, value)
    assert read_json(path) == value
    assert "春 Straße" in path.read_text(encoding="utf-8")


def test_json_that_other_programs_could_not_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n "b" 2}', r"a\.json: not valid JSON: .* line 2"),
        (b"", r"a\.json: not valid JSON: .* line 1"),
        (b'{"a": "\xff"}', r"a\.json: not valid UTF-8 \(byte 7\)"),
        (b"[1e999]", r"a\.json: not usable JSON: a number that is too large"),
        (b"[NaN]", r"a\.json: not usable JSON: a number that is too large"),
        (b"1" * 5000, r"a\.json: not usable JSON: a number that is too large"),
        (b'["\\ud800"]', r"a\.json: not usable JSON: half a surrogate pair"),
        (b"[" * 100_000, r"a\.json: not usable JSON: nested too deeply"),
    ],
)
def test_bad_json_is_named_by_file_and_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_json(path)


# Rights


def test_a_folder_without_rights_is_an_error_in_one_line(tmp_path: Path) -> None:
    """``is_file`` of pathlib raises a PermissionError there: ordinary users got tracebacks."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    closed = tmp_path / "closed"
    (closed / "folder").mkdir(parents=True)
    (closed / "file").touch()
    closed.chmod(0o444)
    try:
        for check in (is_file, is_folder, exists):
            error = as_nobody(lambda check=check: check(closed / "file"))  # type: ignore[misc]
            assert error == f"UserError: {closed / 'file'}: cannot read: Permission denied"
    finally:
        closed.chmod(0o755)
    assert is_file(closed / "file")
    assert not is_folder(closed / "file")
    assert is_folder(closed / "folder")
    assert exists(closed / "folder")


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file" / "below", "null\0character"):
        assert not is_file(path)
        assert not is_folder(path)
        assert not exists(path)


def test_circles_of_links_and_long_names_are_errors_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(UserError, match="circle: cannot read: Too many levels"):
        is_file(tmp_path / "circle")
    with pytest.raises(UserError, match="cannot read: File name too long"):
        exists(tmp_path / ("n" * 300))
