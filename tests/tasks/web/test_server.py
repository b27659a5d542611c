"""The process that serves: it announces itself, survives slow clients, and ends in order."""

import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.commands.command_line import error_of
from tests.forked import forked_cli

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from libretranslatepy import LibreTranslateAPI

from tasks.web.server import open_socket

LONG_TEXTS = ["Ein Mann singt ein Lied auf der Straße vor dem alten Haus. " * 4] * 2


@dataclass
class Running:
    """A service in a process of its own."""

    process: subprocess.Popen[Any]
    url: str

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rstrip("/").partition(":")
        return host, int(port)

    def post(self, path: str, body: object) -> Any:
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", content, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)


def start(*options: str) -> Running:
    command = ("serve", "--port=0", "--device=cpu", *options)
    process = forked_cli(*command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.match(r"(http://127\.0\.0\.1:\d+/) ", line)
    assert found, line
    return Running(process, found[1])


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    """The shipped translation model, for clients that may be slow."""
    running = start("--only=translation", "--max-connections=20", "--read-seconds=2")
    yield running
    running.process.kill()
    running.process.communicate()


def test_a_client_of_libretranslate(service: Running) -> None:
    client = LibreTranslateAPI(service.url)
    assert client.translate("Ein Hund rennt.", "de", "en") == "A dog runs."
    assert client.detect("Ein Hund rennt.")[0]["language"] == "de"
    assert [language["code"] for language in client.languages()] == ["de", "en"]


def test_slow_clients_keep_nobody_out(service: Running) -> None:
    """101 connections that never finish a request kept everyone out."""
    pieces = (b"", b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\n")
    body = pieces[1] + b"Content-Length: 90\r\nContent-Type: application/json\r\n\r\n{"
    connections = []
    for number in range(60):
        connections.append(socket.create_connection(service.address, timeout=30))
        connections[-1].sendall((*pieces, body)[number % 3])
    assert service.post("v1/translate", {"texts": ["Ein Hund rennt."]})["results"]
    for connection in connections:
        with connection:
            answer = b""
            with suppress(ConnectionResetError):
                answer = connection.recv(1000)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 408 ")


def test_endless_headers_end_the_connection(service: Running) -> None:
    with (
        socket.create_connection(service.address, timeout=30) as connection,
        pytest.raises(ConnectionError),
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        for _ in range(100):
            connection.sendall(b"a" * 16_384)
            time.sleep(0.001)


def test_a_client_that_does_not_read_is_dropped(service: Running) -> None:
    with socket.create_connection(service.address, timeout=30) as connection:
        request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with suppress(OSError):
            for _ in range(2000):
                connection.sendall(request)
        assert service.post("v1/translate", {"texts": ["Ein Hund rennt."]})["results"]


def test_what_is_no_http_gets_no_traceback(service: Running) -> None:
    for content in (
        b"\0\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"A" * 99999,
    ):
        with socket.create_connection(service.address, timeout=30) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert connection.recv(1000)[:12] in (b"HTTP/1.1 400", b"")


def test_sigterm_answers_what_was_accepted() -> None:
    """All accepted requests were dropped."""
    # A machine that does other work as well takes longer than the default grace.
    running = start("--only=translation", "--grace=300")
    body = {"texts": LONG_TEXTS}
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(running.post, "v1/translate", body) for _ in range(8)]
        time.sleep(0.7)
        running.process.send_signal(signal.SIGTERM)
        results = [answer.result() for answer in answers]
    # A score of -1.447735 is shown as -1.44773 or -1.44774: other batches round differently.
    for result in results:
        for found, expected in zip(result["results"], results[0]["results"], strict=True):
            assert found == expected | {"score": pytest.approx(expected["score"], abs=2e-5)}
    assert len(results[0]["results"]) == 2
    assert running.process.wait(timeout=60) == 0
    assert running.process.stderr is not None
    assert running.process.stderr.read() == ""


def test_the_grace_is_limited() -> None:
    """A request that takes longer is told so; Ctrl-C counts as SIGTERM."""
    running = start("--only=translation", "--grace=0.2", "--max-beam=200")
    failures = []

    def ask() -> None:
        try:
            running.post("v1/translate", {"texts": LONG_TEXTS * 40, "beam": 100})
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(1)
    start_of_end = time.monotonic()
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(timeout=60) == 0
    assert time.monotonic() - start_of_end < 20
    thread.join()
    assert len(failures) == 1
    assert running.process.stderr is not None
    assert "Traceback" not in running.process.stderr.read()


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in error_of(1, "serve", "--port", port)


@pytest.mark.parametrize("host", ["not.a.host.invalid", "a" * 70 + ".b", "::1::1", "a\0b"])
def test_a_host_that_nobody_has_is_an_error(host: str) -> None:
    assert "cannot serve at" in error_of(1, "serve", "--port=0", "--host", host)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--max-beam=300"], "'--max-beam': 300 is not in the range 1<=x<=256"),
        (["--cors-origins=example.org"], "--cors-origins must be an origin"),
        (["--only=couplet", "--translation=x"], "--only leaves out"),
    ],
)
def test_wrong_options_are_errors(options: list[str], reason: str) -> None:
    assert reason in error_of(2, "serve", "--port=0", *options)


def test_answers_are_sent_at_once() -> None:
    """asyncio sets TCP_NODELAY for sockets of this protocol alone: answers came 40 ms late."""
    with open_socket("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
