"""Services over models that have learnt nothing, and clients inside the process."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import httpx2 as httpx
from starlette.testclient import TestClient

from tasks.web.app import create_app
from tasks.web.config import ServiceConfig
from tasks.web.service import Service
from tests.tasks.tiny_models import untrained_classifier, untrained_translator
from tests.tasks.tiny_writers import WRITERS

HOST = "http://localhost:8000"


@cache
def predictors() -> dict[str, Any]:
    """A predictor of each task; together they take no time to make."""
    folder = Path(mkdtemp())
    return {
        "translation": untrained_translator(folder, max_len=64),
        "classification": untrained_classifier(folder),
        "couplet": WRITERS[0],
    }


def service(tasks: Sequence[str] = (), **options: Any) -> Service:
    """Returns a service of all tasks, or of some."""
    chosen = {task: each for task, each in predictors().items() if not tasks or task in tasks}
    return Service(chosen, ServiceConfig(**options))


def client(tasks: Sequence[str] = (), **options: Any) -> TestClient:
    """Returns a client of a service of its own."""
    return client_of(service(tasks, **options))


def client_of(own: Service) -> TestClient:
    """Returns a client of a service."""
    return TestClient(create_app(own), base_url=HOST)


def async_client(own: Service) -> httpx.AsyncClient:
    """Returns a client that can send many requests at a time."""
    transport = httpx.ASGITransport(create_app(own))
    return httpx.AsyncClient(transport=transport, base_url=HOST, timeout=120)


def post(to: TestClient, path: str, body: object, status: int = 200) -> Any:
    """Posts JSON, checks the status, and returns the answer."""
    answer = to.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    return answer.json()


def refusal(
    to: TestClient, path: str, body: object, status: int = 400, **headers: str
) -> Mapping[str, Any]:
    """Posts JSON that must be refused; returns ``error`` and ``field``."""
    answer = to.post(
        path,
        content=body if isinstance(body, bytes) else json.dumps(body),
        headers={"Content-Type": "application/json"} | headers,
    )
    assert answer.status_code == status, answer.text
    found: Mapping[str, Any] = answer.json()
    assert found["error"]
    assert found.keys() <= {"error", "field"}
    return found
