"""What every request passes before a route sees it, and every answer on its way back."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import shown
from tasks.web.config import ServiceConfig, key_in
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

_MAX_CLIENTS = 10_000


class Gate:
    """ASGI middleware: refuses what is unsafe, too much or from other sites; counts and protects.

    It adds security headers to every answer, and answers every failure.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        config: ServiceConfig,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = app
        self.config = config
        self.metrics = metrics
        self._rates = Rates(config.rate_limit, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.monotonic(), 0

        async def protected(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                if scope["path"].startswith("/v1/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            self._check(scope)
            parts = [await self._read_body(scope, receive)]

            async def receive_again() -> Message:
                return {"type": "http.request", "body": parts.pop()} if parts else await receive()

            await self.app(scope, receive_again, protected)
        except ClientDisconnect:
            status = 499
        except (Exception, asyncio.CancelledError) as error:
            match error:
                case RequestError():
                    refusal = error
                case asyncio.CancelledError():  # the server's time to stop is over
                    refusal = stopping()
                case _:
                    log_failure(scope["method"], error)
                    refusal = internal_error()
            if status == 0:
                await refusal.response()(scope, receive, protected)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.monotonic() - start
            self.metrics.requests.labels(route, str(status)).observe(seconds)

    def _check(self, scope: Scope) -> None:
        """Refuses requests to other names (DNS rebinding), of other sites' pages, and too many."""
        headers, is_read = Headers(scope=scope), scope["method"] in ("GET", "HEAD")
        hosts, origin = headers.getlist("host"), headers.get("origin")
        if len(hosts) != 1 or not self.config.allows_host(hosts[0]):
            message = f"the host {shown(', '.join(hosts))} is not one of --allowed-hosts"
            raise RequestError(400, message)
        if is_read:
            return
        is_own = origin is None or origin.partition("://")[2].lower() == hosts[0].lower()
        if not is_own and origin not in self.config.cors_origins:
            raise RequestError(403, f"the origin {shown(origin)} is not one of --cors-origins")
        address = scope["client"][0] if scope.get("client") else ""
        self._rates.count(self.config.client(key_in(headers), address))

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        most, seconds = self.config.max_body, self.config.read_seconds
        length = Headers(scope=scope).get("content-length", "0")
        too_large = RequestError(413, f"the body has more than {most:,} bytes", Connection="close")
        if not length.isdecimal() or int(length[:20]) > most:
            raise too_large
        body = b""
        try:
            async with asyncio.timeout(seconds):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return body
        except TimeoutError:
            text = f"the body took more than {seconds:g} s to arrive"
            raise RequestError(408, text, Connection="close") from None
        raise ClientDisconnect


class Rates:
    """Token buckets: each client has ``limit`` requests, which come back within a minute."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, client: str) -> None:
        """Counts a request. Raises a RequestError (429, with the time to wait) for one too many."""
        if not self.limit:
            return
        now = self._clock()
        left, since = self._buckets.pop(client, (float(self.limit), now))
        left = min(float(self.limit), left + (now - since) * self.limit / 60)
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            seconds = math.ceil((1 - left) * 60 / self.limit)
            message = f"more than {self.limit} requests in a minute: try again in {seconds} s"
            raise RequestError(429, message, Retry_After=str(seconds))
