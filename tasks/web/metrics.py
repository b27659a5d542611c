"""What the service counts, in Prometheus' text format."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector


class Metrics:
    """The counters of one service. No text and no address is in them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"namespace": "transformer_suite", "registry": self.registry}
        ProcessCollector(registry=self.registry)
        self.requests = Histogram(
            "request_seconds",
            "Time from the headers of a request to its answer.",
            ("path", "status"),
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
            **common,
        )
        self.batches = Histogram(
            "batch_items",
            "Texts that were computed together.",
            ("model",),
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            **common,
        )
        self.seconds = Counter("computing_seconds", "Time of computing.", ("model",), **common)
        self.queue = Gauge("queue_requests", "Waiting requests.", ("model",), **common)
