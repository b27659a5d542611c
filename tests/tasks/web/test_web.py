"""The web application: with Flask's test client and, once, over a real socket."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands.command_line import error_of

pytest.importorskip("flask", reason="the extra `web` is not installed")

from transformer_suite.tasks.texts import as_texts
from transformer_suite.tasks.web.server import MOST_BYTES, MOST_TEXTS, create_app

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Reversed:
    text: str

    def record(self) -> dict[str, Any]:
        return {"reversed": self.text[::-1]}


@pytest.fixture
def client() -> Any:
    return new_client()


def new_client() -> Any:
    def load(task: str) -> Callable[[Sequence[str]], list[Reversed]]:
        return lambda texts: [Reversed(f"{task} {text}") for text in as_texts(texts)]

    return create_app(load).test_client()


def test_texts_are_answered_in_order(client: Any) -> None:
    answer = client.post("/api/couplet", json={"texts": ["春", "", "ab"]})
    assert answer.status_code == 200
    results = answer.get_json()["results"]
    assert [r["input"] for r in results] == ["春", "", "ab"]
    assert [r["reversed"] for r in results] == ["春 telpuoc", " telpuoc", "ba telpuoc"]


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        (b'{"texts": "one"}', 400, "expected"),
        (b'{"texts": [1]}', 400, "expected"),
        (b"[]", 400, "expected"),
        (b'{"texts": ["a"], "beam": 2}', 400, "unknown option 'beam'"),
        (b"{", 400, "could not understand"),
        (b"[" * (MOST_BYTES // 2), 400, "nested too deeply"),
        (json.dumps({"texts": [""] * (MOST_TEXTS + 1)}).encode(), 400, f"at most {MOST_TEXTS}"),
        (json.dumps({"texts": ["x" * MOST_BYTES]}).encode(), 413, "exceeds"),
    ],
)
def test_a_bad_request_is_refused_with_a_reason(
    client: Any, body: bytes, code: int, reason: str
) -> None:
    answer = client.post("/api/translation", data=body, content_type="application/json")
    assert answer.status_code == code
    assert reason in answer.get_json()["error"]


def test_a_lone_surrogate_is_an_error_of_the_request(client: Any) -> None:
    answer = client.post("/api/couplet", json={"texts": ["\ud800"]})
    assert answer.status_code == 400
    assert "lone surrogate" in answer.get_json()["error"]


def test_an_unknown_task_and_an_unknown_page(client: Any) -> None:
    assert "there are translation" in client.post("/api/poem", json={}).get_json()["error"]
    assert client.get("/nothing").status_code == 404


def test_the_page_has_every_task_and_loads_nothing_from_other_sites(client: Any) -> None:
    page = client.get("/").get_data(as_text=True)
    for task in ("translation", "classification", "couplet"):
        assert f"{task}: {{" in page
    assert "http://" not in page
    assert "https://" not in page


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in error_of(1, "serve", "--port", port)


@pytest.mark.parametrize("host", ["not.a.host.invalid", "a" * 70 + ".b", "::1::1"])
def test_a_host_that_nobody_has_is_an_error(host: str) -> None:
    """waitress raises a ValueError."""
    assert f"cannot serve at {host}:" in error_of(1, "serve", "--host", host)


hostile_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(
    body=st.binary(max_size=50)
    | hostile_json.map(json.dumps).map(str.encode)
    | hostile_json.map(lambda value: json.dumps({"texts": value}).encode())
)
def test_any_request_is_answered_or_refused_with_a_reason(body: bytes) -> None:
    answer = new_client().post("/api/couplet", data=body, content_type="application/json")
    assert answer.status_code in (200, 400)
    assert answer.get_json().keys() <= {"results", "error"}


def test_the_command_serves_a_model(tiny_models: Callable[[str], Path]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, ROOT / "cli.py", "serve", f"--port={port}", "--device=cpu"]
    server = subprocess.Popen(
        [*command, f"--classification={tiny_models('classification')}"],
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/classification",
            json.dumps({"texts": ["a goal in the last minute"]}).encode(),
            {"Content-Type": "application/json"},
        )
        results = json.load(_open(request))["results"]
        assert results[0]["label"] in results[0]["probabilities"]
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=20) in (0, 130)
        assert b"Traceback" not in (server.stderr.read() if server.stderr else b"")
    finally:
        server.kill()
        server.communicate()


def _open(request: urllib.request.Request) -> Any:
    for _ in range(300):
        try:
            return urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError:
            raise
        except OSError:  # not there yet
            time.sleep(0.1)
    raise AssertionError("the server did not come up")
