"""Pairs of texts as lines: a source, a tab and its target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice, zip_longest
from pathlib import Path

from core.errors import UserError
from tasks.streaming.lines import CHUNK_LINES, Lines, open_texts

_ALIGNED = "line n of one file must belong to line n of the other"


@contextmanager
def open_table(path: Path | None) -> Iterator[Lines]:
    """Opens the pairs at ``path``, or those of standard input.

    Raises:
        UserError: the file cannot be read; a line does not have exactly one tab (names it).
    """
    kind = "source, a tab and its target"
    with open_texts((), path, kind=kind) as (chunks, total):
        yield _checked(chunks, "standard input" if path is None else str(path)), total


@contextmanager
def open_parallel(source: Path, target: Path) -> Iterator[Lines]:
    """Opens the lines of two files as pairs. A tab inside a text becomes a space.

    Raises:
        UserError: a file cannot be read, or the files differ in their number of lines (names both
            numbers, or the end of the shorter file where lines cannot be counted beforehand).
    """
    with open_texts((), source) as (sources, count), open_texts((), target) as (targets, other):
        if None not in (count, other) and count != other:
            raise UserError(f"{target}: {other:,} lines, but {source} has {count:,}: {_ALIGNED}")
        yield _side_by_side(sources, targets, (source, target)), count


def pair_of(line: str) -> tuple[str, str]:
    """Returns the source and the target of a line."""
    source, _, target = line.partition("\t")
    return source, target


def _checked(chunks: Iterable[Sequence[str]], name: str) -> Iterator[Sequence[str]]:
    done = 0
    for chunk in chunks:
        for number, line in enumerate(chunk, start=done + 1):
            if (tabs := line.count("\t")) != 1:
                raise UserError(
                    f"{name}:{number}: {tabs or 'no'} tabs in this line: it must be a source, one "
                    "tab and its target"
                )
        done += len(chunk)
        yield chunk


def _side_by_side(
    sources: Iterable[Sequence[str]], targets: Iterable[Sequence[str]], paths: tuple[Path, Path]
) -> Iterator[Sequence[str]]:
    def pairs() -> Iterator[str]:
        sides = zip_longest(chain.from_iterable(sources), chain.from_iterable(targets))
        for number, pair in enumerate(sides):
            if None in pair:
                shorter, longer = paths if pair[0] is None else reversed(paths)
                raise UserError(
                    f"{shorter} ends at line {number:,}, but {longer} goes on: {_ALIGNED}"
                )
            yield "\t".join(text.replace("\t", " ") for text in pair)

    lines = pairs()
    while chunk := list(islice(lines, CHUNK_LINES)):
        yield chunk
