"""Simplified and traditional characters (OpenCC). Models read and write simplified ones."""

from functools import cache
from operator import ne
from string import ascii_letters
from typing import Any, Literal, get_args

Script = Literal["auto", "simplified", "traditional"]
"""The values of ``script``: that of the first line, or one of the two."""
SCRIPTS = get_args(Script)


DIGITS = dict(zip("0123456789０１２３４５６７８９", "零一二三四五六七八九" * 2, strict=True))
DIGITS["〇"] = "零"
"""The numeral for each digit, also of full width, and for the sign of zero."""

CAPITALS = dict(zip(ascii_letters, ascii_letters.upper(), strict=True))
CAPITALS |= {chr(ord(letter) + 0xFEE0): capital for letter, capital in CAPITALS.items()}
"""The capital for each Latin letter, also of full width; a capital stands for itself."""


def simplified(text: str) -> str:
    """Returns ``text``, of as many characters, in simplified ones."""
    return _converted(text, "t2s")


def traditional(text: str) -> str:
    """Returns ``text``, of as many characters, in traditional ones; phrases decide between two."""
    return _converted(text, "s2t")


def is_traditional(text: str) -> bool:
    """Returns whether more characters of ``text`` are only traditional than only simplified."""
    changed = sum(map(ne, text, simplified(text)))
    return changed > 0 and changed > sum(map(ne, text, traditional(text)))


def _converted(text: str, direction: str) -> str:
    convert = _converter(direction).convert
    whole: str = convert(text)
    return whole if len(whole) == len(text) else "".join(convert(c)[:1] or c for c in text)


@cache
def _converter(direction: str) -> Any:
    from opencc import OpenCC

    return OpenCC(direction)
