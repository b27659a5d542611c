"""The process that serves: sockets, slow clients, signals."""

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from core.errors import UserError
from tasks.web.app import create_app
from tasks.web.config import ServiceConfig
from tasks.web.service import Service

_MAX_HEADERS = 16_384  # bytes
_KEEP_ALIVE = 5  # seconds

# After SIGTERM: the time in which requests that are on their way are still accepted.
_DRAIN_SECONDS = 0.3


def serve(
    models: Mapping[str, Path | None],
    config: ServiceConfig,
    *,
    host: str,
    port: int,
    device: str,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Answers requests until SIGTERM or SIGINT, and then those that it has accepted.

    The address is announced on stderr when the models are loaded and have been tried.

    Args:
        models: the checkpoint folder of each task that is offered; None for the shipped model.
        port: 0 for any free port.
        settings: how to load the models of some tasks.

    Raises:
        UserError: the address cannot be used, or a model cannot be loaded.
    """
    with open_socket(host, port) as listener:
        if host not in ("0.0.0.0", "::"):  # what clients ask for, if it is not all addresses
            config = replace(config, allowed_hosts=(*config.allowed_hosts, in_url(host)))
        service = Service.load(models, config, device=device, settings=settings)
        try:
            Server(service, host).run(sockets=[listener])
        except OSError as error:  # another program may have begun to listen
            raise UserError(f"cannot serve at {host}:{port}: {error.strerror}") from error
        finally:
            service.close()


def in_url(host: str) -> str:
    """Returns a host as it stands in addresses and in the Host header."""
    return f"[{host}]" if ":" in host else host


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a socket bound to the address, not yet listening, or raises a UserError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        # asyncio sends at once (TCP_NODELAY) where the protocol is given: an answer came 40 ms late
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that is no host's
        reason = getattr(error, "strerror", None) or "not a host name"
        raise UserError(f"cannot serve at {host}:{port}: {reason}") from error
    return listener


class Server(uvicorn.Server):
    """uvicorn's server, which announces its address and answers what it has accepted."""

    def __init__(self, service: Service, host: str) -> None:
        limits = service.config
        self.host = host
        config = uvicorn.Config(
            create_app(service),
            http=type("Connection", (Connection,), {"limits": limits}),  # uvicorn wants a class
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=bool(limits.trusted_proxies),
            forwarded_allow_ips=list(limits.trusted_proxies),
            timeout_keep_alive=_KEEP_ALIVE,
            # uvicorn takes 0 for no limit.
            timeout_graceful_shutdown=max(limits.grace, 0.01),  # type: ignore[arg-type]
            h11_max_incomplete_event_size=_MAX_HEADERS,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = sockets[0].getsockname()[1] if sockets else 0
        print(f"http://{in_url(self.host)}:{port}/  (Ctrl-C ends it)", file=sys.stderr, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.sleep(_DRAIN_SECONDS)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the server; uvicorn's own method would have the signal raised again at the end."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


class Connection(H11Protocol):
    """A connection that is closed if its client is too slow, or if others need its place.

    uvicorn itself waits without end for the headers of a request, and for clients that read.
    """

    limits: ServiceConfig
    _deadline: asyncio.TimerHandle | None = None
    _waits_since = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether it is the client's turn: to send a request, or the rest of one."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_client()
        if len(self.connections) > self.limits.max_connections:
            others = [c for c in self.connections if isinstance(c, Connection) and c.is_waiting]
            # A new connection is waiting as well: without others it is closed itself.
            min(others, key=lambda connection: connection._waits_since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._wait_for_client()
        super().on_response_complete()

    def _wait_for_client(self) -> None:
        self._cancel_deadline()
        self._waits_since = time.monotonic()
        # The time for the body begins when the headers are read: see Gate.
        self._deadline = self.loop.call_later(self.limits.read_seconds, self._close_if_slow)

    def _close_if_slow(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
