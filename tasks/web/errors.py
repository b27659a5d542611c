"""Requests that are not answered with a result, and what their clients are told."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import JSONResponse

from core.errors import MAX_SHOWN, ConfigError, TextError, UserError, shorten

MAX_MESSAGE = 10 * MAX_SHOWN

OPTION_NAMES = {"beam_size": "beam", "diversity": "diverse"}
"""The options of searches that clients, like users of the command line, know by another name."""


class RequestError(Exception):
    """A request that is refused or fails.

    Args:
        status: of the HTTP response.
        message: what is wrong, and what to do about it.
        field: the field of the request that is wrong.
        headers: of the response.
    """

    def __init__(
        self, status: int, message: str, *, field: str | None = None, **headers: str
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self) -> JSONResponse:
        """Returns the JSON answer ``{"error": ..., "field": ...}``."""
        body: dict[str, Any] = {"error": shorten(self.message, MAX_MESSAGE)}
        if self.field is not None:
            body["field"] = shorten(self.field)
        return JSONResponse(body, self.status, self.headers)


def request_error(error: UserError) -> RequestError:
    """Returns what a client is told about an error of the predictors."""
    message = re.sub(
        r"\bgeneration\.(\w+)", lambda match: OPTION_NAMES.get(match[1], match[1]), str(error)
    )
    if isinstance(error, TextError):
        return RequestError(400, message, field="texts")
    if isinstance(error, ConfigError):
        named = re.search(r"\bgeneration\.(\w+)", str(error))
        if named is not None and not message.startswith("candidates"):
            return RequestError(400, message, field=OPTION_NAMES.get(named[1], named[1]))
        # These are no options of a search's configuration.
        others = (name for name in ("candidates", "keep") if re.search(rf"\b{name}\b", message))
        field = next(others, "prefix")
        return RequestError(400, message, field=field)
    return RequestError(500, message)


def internal_error() -> RequestError:
    """Returns what a client is told about a bug."""
    return RequestError(500, "an internal error of the service")
