"""The names of the classes: one per line of ``classes.txt``, in the order of their numbers."""

from collections.abc import Sequence
from pathlib import Path

from core.errors import CorpusError
from core.storage.files import write_text
from data.readers import iter_lines

CLASSES_FILE = "classes.txt"
_MAX_NAMES = 5  # in a message


def read_classes(folder: Path) -> list[str]:
    """Returns the names of the classes, in the order of their numbers.

    Raises:
        CorpusError: there are fewer than two names; a name is empty, repeated, or holds a tab.
    """
    path = folder / CLASSES_FILE
    names = [line.strip() for line in iter_lines(path)]
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name:
            raise CorpusError(path, "empty line: every line names a class", number)
        if name in seen:
            raise CorpusError(path, f"the class {name[:40]!r} occurs twice", number)
        if "\t" in name:
            raise CorpusError(path, "a class name cannot contain a tab", number)
        seen.add(name)
    if len(names) < 2:
        raise CorpusError(path, f"there must be at least two classes, not {len(names)}")
    return names


def write_classes(folder: Path, names: Sequence[str]) -> None:
    """Writes the names of the classes, in the order of their numbers."""
    write_text(folder / CLASSES_FILE, "".join(f"{name}\n" for name in names))


def class_count(names: Sequence[str], classes: Sequence[str]) -> str:
    """Returns e.g. ``2 of 4 classes: Sports, World``, for a message."""
    return f"{len(names)} of {len(classes)} classes: {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """Returns the first few of ``names``, for a message."""
    shown = ", ".join(name[:40] for name in names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown}, ..."
