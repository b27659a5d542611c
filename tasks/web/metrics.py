"""What the service counts, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The counters of one service. No text and no address is in them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        prefix = "transformer_suite"
        self._requests = Histogram(
            f"{prefix}_request_seconds",
            "Time from the headers of a request to its answer.",
            ("path", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._batches = Histogram(
            f"{prefix}_batch_items",
            "Texts that were computed together.",
            ("model",),
            buckets=_SIZES,
            registry=self.registry,
        )
        self._seconds = Counter(
            f"{prefix}_computing_seconds", "Time of computing.", ("model",), registry=self.registry
        )
        self._queue = Gauge(
            f"{prefix}_queue_requests", "Waiting requests.", ("model",), registry=self.registry
        )

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts an answered request; ``path`` is that of a route, not what a client wrote."""
        self._requests.labels(path, str(status)).observe(seconds)

    def batch(self, model: str, items: int, seconds: float) -> None:
        """Counts a computed batch."""
        self._batches.labels(model).observe(items)
        self._seconds.labels(model).inc(seconds)

    def watch_queue(self, model: str, length: Callable[[], int]) -> None:
        """Reports ``length`` as the length of the queue of ``model``."""
        self._queue.labels(model).set_function(length)

    def text(self) -> bytes:
        """Returns all metrics."""
        return generate_latest(self.registry)
