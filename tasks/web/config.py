"""What the service allows: its limits, and who may use it."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from core.config import check, check_range
from core.decoding.config import MAX_BEAM_SIZE, MAX_N_BEST
from core.errors import ConfigError
from core.storage.files import read_text

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")

_RANGES: dict[str, tuple[float, float]] = {
    "max_body": (100, 100_000_000),
    "max_text": (1, 10_000_000),
    "max_texts": (1, 100_000),
    "max_beam": (1, MAX_BEAM_SIZE),
    "max_candidates": (1, MAX_N_BEST),
    "max_seconds": (0.01, 86_400),
    "max_queue": (1, 100_000),
    "rate_limit": (0, 1_000_000),
    "max_connections": (1, 100_000),
    "read_seconds": (0.1, 3600),
    "grace": (0, 86_400),
}


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """The limits of the service, and who may use it.

    * ``max_body``: bytes in a request; ``max_text``: characters in a text; ``max_texts``: texts in
      a request; ``max_beam``: the widest beam; ``max_candidates``: the most outputs for a text.
    * ``max_seconds``: the computing time of a request. Time in which several requests are computed
      together is divided among them by the lengths of their texts.
    * ``max_queue``: the requests that wait for a model. More are answered with 503.
    * ``rate_limit``: requests in a minute from one client address; 0 for no limit.
    * ``max_connections``: when there are more, those that wait longest for their client's request
      are closed.
    * ``read_seconds``: the time in which a client must send its headers, and then its body.
    * ``grace``: the seconds after SIGTERM in which accepted requests are still answered.
    * ``allowed_hosts``: names that the Host header may have, besides the local ones; "*" for all.
    * ``cors_origins``: the origins whose pages may use the service, as ``https://example.org``.
    * ``api_keys``: if there are any, requests need one of them.
    * ``trusted_proxies``: addresses whose ``X-Forwarded-For`` header names the client.

    Raises:
        ConfigError: a value outside its range.
    """

    max_body: int = 100_000
    max_text: int = 5_000
    max_texts: int = 100
    max_beam: int = 16
    max_candidates: int = 50
    max_seconds: float = 30.0
    max_queue: int = 256
    rate_limit: int = 600
    max_connections: int = 256
    read_seconds: float = 10.0
    grace: float = 30.0
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            check_range(name, getattr(self, name), least, most)
        for origin in self.cors_origins:
            is_origin = re.fullmatch(r"https?://[^/\s]+", origin) is not None
            check(is_origin, "cors_origins", origin, "an origin, such as https://example.org")
        for host in self.allowed_hosts:
            is_host = re.fullmatch(r"\*|[\w.\-]+|\[[0-9a-fA-F:.]+\]", host) is not None
            check(is_host, "allowed_hosts", host, "a host name without a port, or *")

    def limits(self) -> dict[str, Any]:
        """Returns the limits of a single request, as clients see them."""
        names = [item.name for item in fields(self) if item.name.startswith("max_")]
        hidden = {"max_queue", "max_connections"}
        return {name: getattr(self, name) for name in names if name not in hidden}

    def allows_host(self, header: str) -> bool:
        """Returns whether a Host header, with or without a port, names this service."""
        host = re.sub(r":\d*\Z", "", header).lower()
        allowed = {*LOCAL_HOSTS, *map(str.lower, self.allowed_hosts)}
        return "*" in allowed or host in allowed

    def knows_key(self, key: str) -> bool:
        """Returns whether ``key`` is one of the keys, in a time that tells nothing about them."""
        digests = [hashlib.sha256(known.encode()).digest() for known in self.api_keys]
        digest = hashlib.sha256(key.encode("utf-8", "replace")).digest()
        return any(hmac.compare_digest(digest, known) for known in digests)


def read_keys(path: Path) -> tuple[str, ...]:
    """Returns the API keys in a file, one per line; empty lines and ``#`` comments are left out.

    Raises:
        UserError: the file cannot be read.
        ConfigError: it has no key, or a key with characters that a header cannot have.
    """
    lines = read_text(path).splitlines()
    keys = [key for line in lines if (key := line.strip()) and not key.startswith("#")]
    for number, key in enumerate(keys, start=1):
        if not re.fullmatch(r"[!-~]{8,200}", key):
            raise ConfigError(f"{path}: key {number} must be 8 to 200 printable ASCII characters")
    if not keys:
        raise ConfigError(f"{path}: there is no API key in this file, one per line")
    return tuple(keys)
