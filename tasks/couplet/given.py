"""The characters of an answer that the user gives: its beginning, or some anywhere in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from core.config import check
from core.errors import ConfigError
from tasks.couplet.constraint import CharacterTable
from tasks.couplet.request import WILDCARDS, CoupletRequest
from tasks.couplet.rules import RULES, broken_rule
from tasks.couplet.script import simplified
from tasks.couplet.tones import is_punctuation
from tasks.texts import check_unicode

FREE = -1
"""Stands for a character that is not given."""


def given_ids(
    request: CoupletRequest, lines: Sequence[Sequence[list[str]]], table: CharacterTable
) -> list[list[int]]:
    """Returns for each segment of ``lines`` the ids of the characters that are given, or FREE.

    Args:
        lines: first lines, each in segments of characters.

    Raises:
        ConfigError: a character that the model does not know, or one that breaks a rule, or a
            ``keep`` of another length than its line.
    """
    name, text = ("prefix", request.prefix) if request.keep is None else ("keep", request.keep)
    if text is None:
        return [[] for line in lines for _ in line]
    check_unicode(text, name)
    characters = [c for c in simplified(text) if not c.isspace()]
    check(bool(characters), name, text, "a text of at least one character")
    is_pattern = name == "keep"
    given = [None if is_pattern and c in WILDCARDS else c for c in characters]
    ids = [FREE if c is None else _known_id(c, name, text, table) for c in given]
    found: list[list[int]] = []
    for line in lines:
        first = [*chain.from_iterable(line)]
        if first and is_pattern and len(first) != len(given):
            raise ConfigError(
                f"must have {len(first)} characters, as {''.join(first)!r} has, not "
                f"{len(given)}; ？ stands for a free one",
                option="keep",
            )
        start = 0
        for segment in line:
            end = start + len(segment) if is_pattern or start else max(len(given), len(segment))
            if rule := broken_rule(segment, given[start:end], table.form.rhyme, table.form.tones):
                what = (RULES[rule].__doc__ or "").partition("\n")[0].rstrip(".")
                answered = f"{text!r} is in no answer to {''.join(segment)!r}"
                reason = f"{answered}: it breaks the rule of {rule}: {what}"
                raise ConfigError(reason, option=name)
            found.append(ids[start:end])
            start = end
    return found


def _known_id(character: str, name: str, text: str, table: CharacterTable) -> int:
    known = table.id_of(character)
    index = table.mark_id(character) if is_punctuation(character) else known
    if index is None:
        reason = f"{text!r}: the model does not know {character!r}"
        raise ConfigError(reason, option=name)
    return index
