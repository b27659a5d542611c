"""What every request passes before a route sees it: ASGI middleware."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import shown
from tasks.web.config import ServiceConfig
from tasks.web.errors import RequestError, internal_error, log_failure, stopping
from tasks.web.metrics import Metrics

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# Without a key, a client can ask whether the service is up and how it is used.
_PUBLIC = ("/v1/health", "/v1/openapi.json", "/v1/docs")

_MAX_CLIENTS = 10_000


class Shield:
    """The outermost layer: security headers, metrics, and an answer to every failure."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        start, status = time.monotonic(), 0

        async def shielded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                if scope["path"].startswith("/v1/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            await self.app(scope, receive, shielded)
        except ClientDisconnect:
            status = 499
        except (Exception, asyncio.CancelledError) as error:
            # The server cancels the tasks that are unfinished when its time to stop is over.
            is_stopping = isinstance(error, asyncio.CancelledError)
            if not is_stopping:
                log_failure(scope["method"], error)
            if status == 0:
                refusal = stopping() if is_stopping else internal_error()
                await refusal.response()(scope, receive, shielded)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, str(status)).observe(time.monotonic() - start)


class Gate:
    """Refuses requests without access, too many requests, and bodies that are unsafe to parse."""

    def __init__(
        self,
        app: ASGIApp,
        config: ServiceConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = app
        self.config = config
        self._rates = Rates(config.rate_limit, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check_origin(scope, headers)
            if scope["method"] not in ("GET", "HEAD"):
                self._rates.count(scope["client"][0] if scope.get("client") else "")
            self._check_key(scope, headers)
            body = await self._read_body(headers, receive)
        except RequestError as error:
            await error.response()(scope, receive, send)
            return
        await self.app(scope, _with_body(body, receive), send)

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Refuses requests to other names (DNS rebinding) and from the pages of other sites."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.config.allows_host(hosts[0]):
            raise RequestError(
                400, f"the host {shown(', '.join(hosts))} is not one of --allowed-hosts"
            )
        origin = headers.get("origin")
        if origin is None or scope["method"] in ("GET", "HEAD"):
            return
        is_own = origin.partition("://")[2].lower() == hosts[0].lower()
        if not is_own and origin not in self.config.cors_origins:
            raise RequestError(403, f"the origin {shown(origin)} is not one of --cors-origins")

    def _check_key(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        if not self.config.api_keys or not path.startswith("/v1/") or path in _PUBLIC:
            return
        if not self.config.knows_key(key_in(headers)):
            message = "an API key is needed: Authorization: Bearer KEY"
            raise RequestError(401, message, WWW_Authenticate="Bearer")

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        most = self.config.max_body
        length = headers.get("content-length", "0")
        too_large = RequestError(413, f"the body has more than {most:,} bytes", Connection="close")
        if not length.isdecimal() or int(length[:20]) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.config.read_seconds):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            message_text = f"the body took more than {self.config.read_seconds:g} s to arrive"
            raise RequestError(408, message_text, Connection="close") from None
        raise ClientDisconnect


class Rates:
    """Token buckets: each client has ``limit`` requests, which come back within a minute."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, client: str) -> None:
        """Counts a request.

        Raises:
            RequestError: there were too many; it says when to try again (429).
        """
        if not self.limit:
            return
        now = self._clock()
        left, since = self._buckets.pop(client, (float(self.limit), now))
        left = min(float(self.limit), left + (now - since) * self.limit / 60)
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        while len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            seconds = math.ceil((1 - left) * 60 / self.limit)
            message = f"more than {self.limit} requests in a minute: try again in {seconds} s"
            raise RequestError(429, message, Retry_After=str(seconds))


def key_in(headers: Headers) -> str:
    """Returns the API key in the headers of a request, or ""."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Returns a ``receive`` that begins with a body which has been read already."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    return receive_again
