#!/usr/bin/env python3
"""Measures the service under load: no answer lost, wrong or swapped; times; throughput; memory.

Starts ``cli.py serve`` and asks it for translations: with one client that waits for each answer,
and with many clients at a time. Every answer is compared with the translator's own.

    python -m benchmarks.serving --data FOLDER
    python -m benchmarks.serving --data FOLDER --memory 20000
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import click

from tasks.commands.options import PATH
from tasks.translation.predict import Translator

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Load:
    """What a number of clients got: the seconds of each request, and the failures."""

    seconds: list[float]
    failures: list[str]
    total: float

    @property
    def throughput(self) -> float:
        """Requests in a second."""
        return len(self.seconds) / self.total

    def percentile(self, share: float) -> float:
        """The time, in milliseconds, that this share of the requests does not exceed."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with test_2016_flickr.de.")
@click.option("--clients", default=64, show_default=True)
@click.option("--requests", default=2000, show_default=True)
@click.option("--single", default=300, show_default=True, help="Requests one at a time.")
@click.option("--threads", default=2, show_default=True)
@click.option("--memory", default=0, help="Afterwards, the memory over this many requests.")
def main(data: Path, clients: int, requests: int, single: int, threads: int, memory: int) -> None:
    texts = (data / "test_2016_flickr.de").read_text(encoding="utf-8").splitlines()
    expected = dict(zip(texts, Translator.load(device="cpu").translate(texts), strict=True))
    failures: list[str] = []
    options = ("--only=translation", "--rate-limit=0", f"--threads={threads}")
    with running_service(*options) as port:
        ask(port, texts[:200], expected, clients=8)  # the first requests warm the service up
        rows = []
        for count, number in ((1, single), (clients, requests)):
            load = ask(port, list(islice(cycle(texts), number)), expected, clients=count)
            failures += load.failures
            times = " | ".join(f"{load.percentile(share):.0f}" for share in (0.5, 0.95, 0.99))
            rows.append(load)
            if count == 1:
                print("| clients | requests | lost or wrong | p50 ms | p95 | p99 | per second |")
                print("|---|---|---|---|---|---|---|")
            cells = f"{count} | {number:,} | {len(load.failures)} | {times}"
            print(f"| {cells} | {load.throughput:.1f} |", flush=True)
        print(f"\nthroughput: {rows[1].throughput / rows[0].throughput:.2f} times one at a time")
        if memory:
            print("\n| requests | memory of the service, MB |\n|---|---|")
            failures += show_memory(port, texts, expected, clients=clients, requests=memory)
    for failure in failures[:10]:
        print(failure, file=sys.stderr)
    sys.exit(bool(failures))


def show_memory(
    port: int, texts: Sequence[str], expected: dict[str, str], *, clients: int, requests: int
) -> list[str]:
    """Prints the memory of the service at ten moments and returns the failures."""
    failures: list[str] = []
    endless = cycle(texts)
    for part in range(11):
        print(f"| {part * requests // 10:,} | {resident(port) / 1e6:.0f} |", flush=True)
        if part < 10:
            load = ask(port, list(islice(endless, requests // 10)), expected, clients=clients)
            failures += load.failures
    return failures


def ask(port: int, texts: Sequence[str], expected: dict[str, str], *, clients: int) -> Load:
    """Sends each text in a request of its own, by clients that each wait for their answer."""
    waiting: SimpleQueue[str] = SimpleQueue()
    for text in texts:
        waiting.put(text)
    seconds: list[float] = []
    failures: list[str] = []

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        while True:
            try:
                text = waiting.get_nowait()
            except Empty:
                return
            start = time.perf_counter()
            try:
                (result,) = post(connection, {"texts": [text]})["results"]
            except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
                failures.append(f"lost: {text!r}: {error!r}")
                connection.close()
                continue
            seconds.append(time.perf_counter() - start)
            if result["input"] != text or result["translation"] != expected[text]:
                failures.append(f"wrong: {text!r}: {result}")

    threads = [Thread(target=work) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(seconds, failures, time.perf_counter() - start)


def post(connection: http.client.HTTPConnection, body: object) -> Any:
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/translate", json.dumps(body), headers)
    return json.loads(connection.getresponse().read())


def resident(port: int) -> float:
    """Returns the bytes of memory that the service uses, from its metrics."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", "/v1/metrics")
    text = connection.getresponse().read().decode()
    found = re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


@contextmanager
def running_service(*options: str) -> Iterator[int]:
    """Starts the service with the shipped models and further options; yields its port."""
    command = (sys.executable, ROOT / "cli.py", "serve", "--port=0", "--device=cpu", *options)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = re.match(r"http://[\d.]+:(\d+)/", process.stderr.readline())
    try:
        assert found is not None, process.stderr.read()
        yield int(found[1])
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
