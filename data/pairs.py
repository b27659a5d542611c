"""Pairs of texts: two files that are aligned by line, tables with two columns, and TMX files."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError

from defusedxml import EntitiesForbidden
from defusedxml.ElementTree import iterparse

from core.errors import CorpusError, shorten
from core.progress import log
from data.readers import chosen_encoding, iter_lines, reading
from data.tables import TableLayout, open_table

PAIR_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".xlsx", ".tmx")

_TAG = re.compile(r"<[^<>]*>|&#?\w+;")
# Elements of TMX whose content is markup of the translated document.
_CODES = {"bpt", "ept", "it", "ph", "ut"}
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class TextPair(NamedTuple):
    """A text and its translation, or the two lines of a couplet."""

    source: str
    target: str


def read_parallel(
    source: Path, target: Path, *, encoding_of: Callable[[Path], str] = chosen_encoding
) -> list[TextPair]:
    """Returns the lines of two files as pairs, in order.

    Raises a CorpusError if the numbers of lines differ, or if a line or a file is empty.
    """
    found = {}
    for path in (source, target):
        found[path] = [*iter_lines(path, encoding=encoding_of(path))]
        if not found[path]:
            raise CorpusError(path, "the file is empty")
    first, second = found[source], found[target]
    if len(first) != len(second):
        raise CorpusError(
            target,
            f"{len(second):,} lines, but {source} has {len(first):,}: "
            "line n of one must belong to line n of the other",
        )
    for path, lines in found.items():
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                reason = "empty line: remove it, and the same line of the other file"
                raise CorpusError(path, reason, number)
    return [*map(TextPair, first, second)]


def read_tabbed(path: str | Path) -> list[TextPair]:
    """Returns a pair for every line, split at its tab. Raises a CorpusError for any other line."""
    pairs = []
    for number, line in enumerate(iter_lines(path), start=1):
        texts = line.split("\t")
        if len(texts) != 2:
            reason = f"{len(texts) - 1 or 'no'} tabs: write two texts with one tab between them"
            raise CorpusError(path, reason, number)
        if not all(text.strip() for text in texts):
            raise CorpusError(path, "one side of the tab is empty", number)
        pairs.append(TextPair(*texts))
    if not pairs:
        raise CorpusError(path, "the file is empty")
    return pairs


def read_pairs(path: Path, src: str, tgt: str, layout: TableLayout) -> list[TextPair]:
    """Returns the pairs of a table or a TMX file that a model can learn from.

    Pairs with an empty side, equal sides or a side of markup alone are left out, and counted on
    stderr. Every run of white space becomes one space. Raises a CorpusError without any pair.

    Args:
        src, tgt: the languages, which are the names of the columns, or without a header their
            numbers. A table of two columns with others has no header, and the sources come first.
    """
    pairs, left_out = [], Counter[str]()
    for texts in iter_pairs(path, src, tgt, layout):
        source, target = (" ".join(text.split()) for text in texts)
        if not (source and target):
            left_out["with an empty side"] += 1
        elif source == target:
            left_out["with equal sides"] += 1
        elif not all(any(map(str.isalnum, _TAG.sub("", text))) for text in (source, target)):
            left_out["of marks or markup alone"] += 1
        else:
            pairs.append(TextPair(source, target))
    if left_out:
        count, total = left_out.total(), left_out.total() + len(pairs)
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in left_out.items())
        log(f"{path}: {count:,} of {total:,} pairs are left out: {kinds}")
    if not pairs:
        raise CorpusError(path, f"there is no pair of {src} and {tgt}")
    return pairs


def iter_pairs(path: Path, src: str, tgt: str, layout: TableLayout) -> Iterator[tuple[str, str]]:
    """Yields all pairs of a table or a TMX file; see :func:`read_pairs`."""
    if path.suffix.lower() == ".tmx":
        yield from _tmx_pairs(path, src, tgt)
        return
    table = open_table(path, layout)
    columns = [src, tgt]
    are_two, has_names = len(table.columns) == 2, not any(map(str.isdigit, columns))
    if are_two and table.header and not {src, tgt} & {*table.columns}:
        table = open_table(path, replace(layout, header=False))
        place = f"the first column is {src}, the second {tgt}, and " if has_names else ""
        log(f"{path}: no columns {src} and {tgt}: {place}the first row is a pair")
    if are_two and not table.header and table.delimiter and has_names:
        columns = ["1", "2"]
    table.require(columns)
    for row, record in table.rows():
        yield table.text(row, record, columns[:1]), table.text(row, record, columns[1:])


def iter_texts(path: Path, name: str, layout: TableLayout) -> Iterator[str]:
    """Yields the texts in a column of a table, or in a language of a TMX file, as single lines."""
    if path.suffix.lower() == ".tmx":
        texts = (text for text, _ in _tmx_pairs(path, name, name))
    else:
        table = open_table(path, layout)
        table.require([name])
        texts = (table.text(row, record, [name]) for row, record in table.rows())
    return (" ".join(text.split()) for text in texts)


def _tmx_pairs(path: Path, src: str, tgt: str) -> Iterator[tuple[str, str]]:
    """Yields the texts of each translation unit in two languages; "" where there is none.

    Raises:
        CorpusError: the file is not XML, declares entities, which could grow without end, or has
            no text in one of the languages.
    """
    names = set[str]()
    with reading(path):
        try:
            for _, element in iterparse(path):
                if _name(element) == "tu":
                    names.update(map(_language_of, element.iterfind("{*}tuv")))
                    yield _text_in(element, src), _text_in(element, tgt)
                    element.clear()
        except EntitiesForbidden as error:
            raise CorpusError(path, "not a TMX file: it declares entities") from error
        except (ParseError, ValueError, RecursionError) as error:
            line, _ = getattr(error, "position", (None, None))
            raise CorpusError(path, f"not a TMX file: {error}", line) from error
    for language in (src, tgt):
        if names and not any(_is_in(name, language) for name in names):
            listed = shorten(", ".join(sorted(names)))
            raise CorpusError(path, f"no text is in {language}; its languages: {listed}")


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _language_of(variant: Element) -> str:
    return (variant.get(_LANGUAGE) or variant.get("lang") or "").lower().replace("_", "-")


def _is_in(name: str, language: str) -> bool:
    """Returns whether ``name`` is a language, or a variety of it: de-AT for de."""
    return f"{name}-".startswith(f"{language}-".lower())


def _text_in(unit: Element, language: str) -> str:
    """Returns the text of a translation unit in a language; "" without it."""
    for variant in unit.iterfind("{*}tuv"):
        if _is_in(_language_of(variant), language):
            return "".join(map(_text, variant.iterfind("{*}seg")))
    return ""


def _text(segment: Element) -> str:
    """Returns the text of a segment, without markup of the document that was translated."""
    inner = (("" if _name(e) in _CODES else _text(e)) + (e.tail or "") for e in segment)
    return (segment.text or "") + "".join(inner)
