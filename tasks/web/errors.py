"""Requests that are not answered with a result, and what their clients are told."""

import sys
from traceback import extract_tb
from typing import Any

from starlette.responses import JSONResponse

from core.config import options_of
from core.errors import MAX_SHOWN, ConfigError, TextError, UserError, shorten
from tasks.couplet.request import CoupletRequest

MAX_MESSAGE = 10 * MAX_SHOWN

_OPTIONS = options_of(CoupletRequest)


def public_name(option: str) -> str:
    """Returns the name by which clients, like users of the command line, know an option."""
    name = option.removeprefix("generation.")
    return (name in _OPTIONS and _OPTIONS[name].short) or name


class RequestError(Exception):
    """A request that is refused or fails; ``status`` and ``headers`` are those of the response.

    ``message`` says what is wrong, and what to do about it; ``field`` is the field that is wrong.
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
    if isinstance(error, TextError):
        return RequestError(400, str(error), field="texts")
    if not isinstance(error, ConfigError):
        return RequestError(500, str(error))
    if error.option is None:
        return RequestError(400, str(error))
    name = public_name(error.option)
    return RequestError(400, f"{name} {error.reason}", field=name)


def internal_error() -> RequestError:
    """Returns what a client is told about a bug."""
    return RequestError(500, "an internal error of the service")


def stopping() -> RequestError:
    """Returns the error of requests that a service cannot answer before it ends."""
    return RequestError(503, "the service is stopping", Retry_After="30")


def log_failure(place: str, error: BaseException) -> None:
    """Writes one line about a bug to stderr. Messages may hold texts, so the line has none."""
    frames = extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    print(f"internal error in {place}: {type(error).__name__}{where}", file=sys.stderr)
