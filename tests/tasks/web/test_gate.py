"""Who may use the service, and how much of it."""

import asyncio
import time
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from core.errors import ConfigError, UserError
from tasks.web.config import ServiceConfig, read_keys
from tasks.web.errors import RequestError
from tasks.web.gate import SECURITY_HEADERS, Gate, Rates
from tasks.web.metrics import Metrics
from tests.tasks.web.services import client, client_of, post, refusal, service

BODY = {"texts": ["shares fall"]}
PATH = "/v1/classify"


@pytest.mark.parametrize("path", ["/", "/v1/health", "/v1/docs", "/nothing", "/v1/translate"])
def test_every_answer_has_security_headers(path: str) -> None:
    headers = client().get(path).headers
    assert {name: headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert "server" not in headers


@pytest.mark.parametrize(
    ("header", "is_allowed"),
    [
        ("localhost", True),
        ("[::1]:8000", True),
        ("own.example.org", True),
        ("evil.example.org", False),
        ("localhost:8000.evil.org", False),
        ("", False),
    ],
)
def test_the_host_header_is_checked(header: str, is_allowed: bool) -> None:
    """Otherwise the page of a stranger could use the service of its reader (DNS rebinding)."""
    web = client(allowed_hosts=("own.example.org",))
    answer = web.get("/v1/health", headers={"Host": header})
    assert answer.status_code == (200 if is_allowed else 400)
    if not is_allowed:
        assert "allowed-hosts" in answer.json()["error"]
    assert client(allowed_hosts=("*",)).get("/", headers={"Host": header}).status_code == 200


def test_pages_of_other_sites_are_refused_unless_they_are_named() -> None:
    site = {"Origin": "https://example.org"}
    assert refusal(client(), PATH, BODY, 403, **site)["error"]
    own = client().post(PATH, json=BODY, headers={"Origin": "http://localhost:8000"})
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers
    web = client(cors_origins=("https://example.org",))
    answer = web.post(PATH, json=BODY, headers=site)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://example.org"
    asked = {**site, "Access-Control-Request-Method": "POST"}
    assert web.options(PATH, headers=asked).status_code == 200
    refusal(web, PATH, BODY, 403, Origin="https://other.org")


def test_keys() -> None:
    web = client(api_keys=("first-key", "second-key"))
    assert "API key" in refusal(web, PATH, BODY, 401)["error"]
    refusal(web, PATH, BODY, 401, Authorization="Bearer wrong-key")
    refusal(web, PATH, BODY, 401, Authorization="Basic second-key")
    for headers in ({"Authorization": "Bearer second-key"}, {"X-API-Key": "first-key"}):
        assert web.post(PATH, json=BODY, headers=headers).status_code == 200
    for path in ("/", "/v1/health", "/v1/docs", "/v1/openapi.json"):
        assert web.get(path).status_code == 200
    assert web.get("/v1/models").status_code == 401


def test_keys_are_read_from_a_file(tmp_path: Any) -> None:
    path = tmp_path / "keys"
    path.write_text("# ours\nfirst-key\n\n  second-key  \n")
    assert read_keys(path) == ("first-key", "second-key")
    for content in ("", "# none\n", "short\n", "with a space in it\n", "schlüssel-eins\n"):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ConfigError, match="key"):
            read_keys(path)
    with pytest.raises(UserError, match="nothing"):
        read_keys(tmp_path / "nothing")


def test_the_rate_of_a_client_is_limited() -> None:
    own = service(rate_limit=3)
    web = client_of(own)
    for _ in range(3):
        post(web, PATH, BODY)
    answer = web.post(PATH, json=BODY)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 20
    assert web.get("/v1/health").status_code == 200


def test_clients_behind_one_address_are_told_apart_by_their_keys() -> None:
    web = client(rate_limit=2, api_keys=("first-key", "second-key"))
    first, second = ({"X-API-Key": key} for key in ("first-key", "second-key"))
    for headers, status in ((first, 200), (first, 200), (first, 429), (second, 200)):
        assert web.post(PATH, json=BODY, headers=headers).status_code == status
    for number, status in enumerate((401, 401, 429)):  # unknown keys are one client
        assert web.post(PATH, json=BODY, headers={"X-API-Key": f"{number}"}).status_code == status


def test_requests_come_back_with_time() -> None:
    now = 0.0
    rates = Rates(60, lambda: now)
    for _ in range(60):
        rates.count("a")
    for client_name in ("a", "a"):
        with pytest.raises(RequestError, match="try again in 1 s"):
            rates.count(client_name)
    rates.count("b")
    now = 2.5
    rates.count("a")
    rates.count("a")
    with pytest.raises(RequestError):
        rates.count("a")
    for number in range(10_050):
        rates.count(str(number))
    assert len(rates._buckets) == 10_000


def test_a_body_that_is_too_large_is_refused() -> None:
    web = client(max_body=1000)
    assert "1,000 bytes" in refusal(web, PATH, b" " * 1001, 413)["error"]
    chunks = (b" " * 100 for _ in range(11))
    assert web.post(PATH, content=chunks).status_code == 413
    for length in ("-1", "many", "9" * 100):
        answer = web.post(PATH, content=b"", headers={"Content-Length": length})
        assert answer.status_code == 413


def test_a_client_that_sends_too_slowly_is_refused() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the body is not complete")

    async def receive() -> Any:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"host", b"localhost")]}
    start = time.monotonic()
    gate = Gate(app, config=ServiceConfig(read_seconds=0.3), metrics=Metrics())
    asyncio.run(gate(scope, receive, send))
    assert time.monotonic() - start < 3
    assert sent[0]["status"] == 408


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_json_that_is_nested_too_deeply_is_refused(encoding: str) -> None:
    """In UTF-16 it was a RecursionError, and the answer an internal error."""
    web = client(max_body=1_000_000)
    for path in (PATH, "/translate", "/detect"):
        for text in ("[" * 50_000, '{"a":' * 10_000, '{"texts": ' + "[" * 9000 + "]" * 9000 + "}"):
            assert "nested" in refusal(web, path, text.encode(encoding))["error"]
    brackets = {"texts": ['[[[["' * 100 + "\\" * 99]}
    assert post(web, PATH, brackets)["results"]


def test_failures_are_answered_without_a_traceback(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = service()

    def fail() -> None:
        raise KeyError("secret")

    monkeypatch.setattr(own, "models", fail)
    answer = client_of(own).get("/v1/models")
    assert answer.status_code == 500
    assert "internal error" in answer.json()["error"]
    shown = capfd.readouterr().err
    assert shown.startswith("internal error in GET: KeyError at ")
    assert len(shown.splitlines()) == 1
    assert "secret" not in shown


def test_metrics_count_requests_and_hold_no_text() -> None:
    web = client()
    post(web, PATH, {"texts": ["a secret"]})
    web.get("/nothing/secret")
    text = web.get("/v1/metrics").text
    assert 'request_seconds_count{path="/v1/classify",status="200"} 1.0' in text
    assert 'batch_items_sum{model="classification"} 1.0' in text
    assert "secret" not in text


@pytest.mark.parametrize(
    "options",
    [
        {"max_beam": 257},
        {"cors_origins": ("example.org",)},
        {"allowed_hosts": ("a b",)},
        {"trusted_proxies": ("proxy",)},
    ],
)
def test_impossible_limits_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        ServiceConfig(**options)
