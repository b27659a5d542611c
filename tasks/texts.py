"""The texts that callers of the Python API hand in: checked before any work begins."""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from core.errors import TextError

F = TypeVar("F", bound=Callable[..., Any])


def keeps_index(method: F) -> F:
    """Makes a method that takes texts return a pandas Series for one, with the same index."""

    @wraps(method)
    def keeping(self: Any, texts: Any, *args: Any, **options: Any) -> Any:
        results = method(self, texts, *args, **options)
        if not _is_series(texts):
            return results
        return type(texts)(results, index=texts.index, name=texts.name, dtype=object)

    return keeping  # type: ignore[return-value]


def _is_series(texts: object) -> bool:
    pandas = sys.modules.get("pandas")  # without it, there is no Series
    return pandas is not None and isinstance(texts, pandas.Series)


def as_texts(texts: Any, *, name: str = "text") -> list[str]:
    """Returns ``texts`` as a list; a string is one text, not a sequence of letters.

    Missing values (None, and NaN of a table) are empty texts; a warning counts them.

    Args:
        name: what error messages call one of the texts.

    Raises:
        TypeError: neither a string nor an iterable of strings.
        TextError: a lone surrogate, which is half of a character and not valid Unicode.
    """
    if isinstance(texts, str):
        texts = [texts]
    elif (
        isinstance(texts, bytes | bytearray | Mapping)
        or hasattr(texts, "columns")  # a DataFrame, which yields their names
        or not isinstance(texts, Iterable)
    ):
        kind = type(texts).__name__
        raise TypeError(f"expected a {name} (str) or several of them (list of str), not {kind}")
    checked = list(texts)
    if missing := [number for number, text in enumerate(checked) if _is_missing(text)]:
        counts = f"{len(missing)} of {len(checked)} {name}s"
        warnings.warn(f"{counts} are missing (None or NaN): read as empty", stacklevel=2)
        for number in missing:
            checked[number] = ""
    for number, text in enumerate(checked, start=1):
        check_unicode(text, f"{name} {number}")
    return checked


def _is_missing(text: object) -> bool:
    """Returns whether ``text`` is what tables have in an empty cell: None, NaN or pandas' NA."""
    return text is None or (not isinstance(text, str) and str(text) in ("nan", "<NA>", "NaT"))


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
