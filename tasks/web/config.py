"""What the service allows: its limits, and who may use it."""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from core.config import check, check_options, option
from core.errors import ConfigError
from core.storage.files import read_text

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """The limits of the service, and who may use it.

    Raises:
        ConfigError: a value outside its range.
    """

    max_body: int = option(100_000, "The bytes of a request.", "", 100, 100_000_000)
    max_text: int = option(5_000, "The characters of a text.", "", 1, 10_000_000)
    max_texts: int = option(100, "The texts in a request.", "", 1, 100_000)
    max_beam: int = option(16, "The widest beam of a request.", "", 1, 256)
    max_candidates: int = option(50, "The outputs for each text.", "", 1, 1000)
    # Time in which several requests are computed together is divided among them by their lengths.
    max_seconds: float = option(30.0, "Computing time of a request.", "", 0.01, 86_400)
    max_queue: int = option(256, "Requests that wait for a model; more get a 503.", "", 1, 100_000)
    rate_limit: int = option(600, "A client's requests in a minute; 0: no limit.", "", 0, 1_000_000)
    # When there are more, those that wait longest for their client's request are closed.
    max_connections: int = option(256, "Open connections.", "", 1, 100_000)
    read_seconds: float = option(
        10.0, "The time a client has to send its headers, and then the body.", "", 0.1, 3600
    )
    grace: float = option(
        30.0, "After SIGTERM: seconds in which accepted requests are still answered.", "", 0, 86_400
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "A name under which clients may reach the service, besides localhost; * for all.",
        metavar="NAME",
    )
    cors_origins: tuple[str, ...] = option(
        (), "A site whose pages may use the service: https://example.org.", metavar="ORIGIN"
    )
    trusted_proxies: tuple[str, ...] = option(
        (), "A reverse proxy whose X-Forwarded-For header names the client.", metavar="ADDRESS"
    )
    api_keys: tuple[str, ...] = ()  # if there are any, requests need one of them

    def __post_init__(self) -> None:
        check_options(self)
        for origin in self.cors_origins:
            is_origin = re.fullmatch(r"https?://[^/\s]+", origin) is not None
            check(is_origin, "cors_origins", origin, "an origin, such as https://example.org")
        for host in self.allowed_hosts:
            is_host = re.fullmatch(r"\*|[\w.\-]+|\[[0-9a-fA-F:.]+\]", host) is not None
            check(is_host, "allowed_hosts", host, "a host name without a port, or *")
        for proxy in self.trusted_proxies:
            is_address = re.fullmatch(r"\*|(?=.*[.:])[0-9a-fA-F:.]+(/\d+)?", proxy) is not None
            check(is_address, "trusted_proxies", proxy, "an IP address or network, or *")

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
        given = key.encode("utf-8", "replace")
        return any(hmac.compare_digest(given, known.encode()) for known in self.api_keys)

    def client(self, key: str, address: str) -> str:
        """Returns who sends a request: an API key where keys are in use, otherwise an address."""
        return key if self.knows_key(key) else address


def key_in(headers: Mapping[str, str]) -> str:
    """Returns the API key in the headers of a request, or ""."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def read_keys(path: Path) -> tuple[str, ...]:
    """Returns the API keys in a file, one a line, without ``#`` comments. Raises a ConfigError."""
    lines = read_text(path).splitlines()
    keys = [key for line in lines if (key := line.strip()) and not key.startswith("#")]
    for number, key in enumerate(keys, start=1):
        if not re.fullmatch(r"[!-~]{8,200}", key):
            raise ConfigError(f"{path}: key {number} must be 8 to 200 printable ASCII characters")
    if not keys:
        raise ConfigError(f"{path}: there is no API key in this file, one per line")
    return tuple(keys)
