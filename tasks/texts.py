"""The texts that callers of the Python API hand in: checked before any work begins."""

from __future__ import annotations

from collections.abc import Iterable

from core.errors import TextError


def as_texts(texts: object, *, name: str = "text") -> list[str]:
    """Returns ``texts`` as a list; a string is one text, not a sequence of letters.

    Args:
        name: what error messages call one of the texts.

    Raises:
        TypeError: neither a string nor an iterable of strings.
        TextError: a lone surrogate, which is half of a character and not valid Unicode.
    """
    if isinstance(texts, str):
        texts = [texts]
    elif isinstance(texts, bytes | bytearray) or not isinstance(texts, Iterable):
        kind = type(texts).__name__
        raise TypeError(f"expected a {name} (str) or several of them (list of str), not {kind}")
    checked = list(texts)
    for number, text in enumerate(checked, start=1):
        check_unicode(text, f"{name} {number}")
    return checked


def check_unicode(text: object, name: str) -> None:
    """Checks that ``text``, which messages call ``name``, is a string of whole characters.

    Raises:
        TypeError: not a string.
        TextError: a lone surrogate.
    """
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(text).__name__}")
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise TextError(
            f"{name} is not valid Unicode: it has a lone surrogate (U+{code:04X}) "
            f"at character {error.start + 1}"
        ) from None
