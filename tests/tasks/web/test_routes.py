"""The interface under /v1/: every option, every answer, every refusal with the field's name."""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from core.errors import UserError
from tasks.classification.explain import explain
from tasks.couplet.layout import banner
from tasks.couplet.request import CoupletRequest
from tasks.seq2seq.request import GenerationRequest
from tasks.web.app import create_app
from tasks.web.config import ServiceConfig
from tasks.web.errors import public_name
from tasks.web.schemas import CoupletBody, TranslateBody
from tasks.web.service import Service, plain
from tests.tasks.tiny_models import write_two_way_model
from tests.tasks.web.services import (
    HOST,
    async_client,
    client,
    client_of,
    post,
    predictors,
    refusal,
    service,
)

TEXTS = ["ein Hund rennt .", "", "das Haus sieht er nicht .", "der Hund rennt , und rennt ."]
NOT_OF_A_CLIENT = {
    "avoid",
    "constraint",
    "numbers",
    "batch_tokens",
    "on_batch",
    "on_step",
    "record",
    "whole_words",
    "placeholders",
    "is_scored",
}
"""Options that make no sense for one request; placeholders only ever help a client."""


@pytest.fixture(scope="module")
def web() -> Any:
    return client()


def without_input(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in result.items() if k != "input"} for result in results]


def test_every_option_of_a_search_is_an_option_of_a_request() -> None:
    options = {item.name for item in fields(CoupletRequest)} - NOT_OF_A_CLIENT
    names = {public_name(name) for name in options}
    known = TranslateBody.model_fields.keys() | CoupletBody.model_fields.keys()
    assert known == names | {"texts", "sentences", "banner"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_best": 3, "beam": 4},
        {"beam": 3, "diverse": 0.5, "n_best": 3},
        {"sample": True, "seed": 5, "top_k": 8, "temperature": 2.0, "n_best": 2},
        {"prefix": "ein", "length_penalty": 0.0, "max_length": 5, "no_repeat_ngram": 2},
        {"max_length_ratio": 1, "max_length_extra": 2, "min_length_ratio": 0.5, "top_p": None},
    ],
)
def test_translations_are_the_translators(web: Any, options: dict[str, Any]) -> None:
    results = post(web, "/v1/translate", {"texts": TEXTS, **options})["results"]
    expected = predictors()["translation"].generate(TEXTS, GenerationRequest.of(**options))
    assert [result["input"] for result in results] == TEXTS
    for result, own in zip(results, expected, strict=True):
        hypotheses = [plain(other.record()) for other in own.hypotheses]
        assert result.get("hypotheses", hypotheses) == hypotheses
        assert ("hypotheses" in result) == ("n_best" in options)
        assert result["translation"] == own.text
        assert result["score"] == pytest.approx(own.score, abs=1e-4)


def test_sentences_are_answered_one_by_one(web: Any) -> None:
    text = " ein Hund rennt. Das Haus sieht er nicht!\n \n  2. der Hund rennt. "
    body = {"texts": [text, ""], "sentences": True, "n_best": 2}
    result, empty = post(web, "/v1/translate", body)["results"]
    parts = ["ein Hund rennt.", "Das Haus sieht er nicht!", "der Hund rennt."]
    found = result["sentences"]
    assert [sentence["input"] for sentence in found if sentence["input"]] == parts
    assert "".join(s["input"] + s["space"] for s in found) == text
    assert result["translation"] == "".join(s["translation"] + s["space"] for s in found)
    alone = post(web, "/v1/translate", {"texts": parts, "n_best": 2})["results"]
    for sentence, own in zip([s for s in found if s["input"]], alone, strict=True):
        assert {**sentence, "space": ""} == {**own, "space": ""}
    assert empty["translation"] == "" and empty["sentences"] == []


def test_classifications_are_the_classifiers(web: Any) -> None:
    texts = ["shares fall", "", "the cup final"]
    classifier = predictors()["classification"]
    expected = plain([result.record() for result in classifier.classify_scored(texts)])
    results = post(web, "/v1/classify", {"texts": texts})["results"]
    assert without_input(results) == expected
    (top, *_) = post(web, "/v1/classify", {"texts": texts, "top": 2})["results"]
    assert list(top["probabilities"]) == list(expected[0]["probabilities"])[:2]
    explained = post(web, "/v1/classify", {"texts": texts, "explain": True})["results"]
    words = [result.pop("explanation") for result in explained]
    assert explained == results
    assert words == plain([each.record() for each in explain(classifier, texts)])
    assert [[each["word"] for each in of_text] for of_text in words] == [
        ["shares", "fall"],
        [],
        ["the", "cup", "final"],
    ]


def test_couplets_are_the_writers(web: Any) -> None:
    lines = ["风天山", "", "雨地，水树"]
    expected = [plain(c.record()) for c in predictors()["couplet"].generate(lines)]
    results = post(web, "/v1/couplet", {"texts": lines})["results"]
    assert without_input(results) == expected
    (one,) = post(web, "/v1/couplet", {"texts": ["风天山"], "beam": 3, "n_best": 3})["results"]
    assert len(one["hypotheses"]) == 3
    assert one["hypotheses"][0]["rules"]


def test_a_couplet_has_a_banner_if_one_fits(web: Any) -> None:
    body = {"texts": ["风天山", ""], "banner": True, "beam": 2, "n_best": 2}
    results = post(web, "/v1/couplet", body)["results"]
    answers = [answer for result in results for answer in (result, *result["hypotheses"])]
    first = results[0]["input"]
    assert answers[0]["banner"] == banner(first, answers[0]["second"])
    assert all("banner" in answer for answer in answers)


def test_the_form_of_a_couplet_is_asked_for(web: Any) -> None:
    body = {"texts": ["风天山"], "keep": "？水？", "tones": "off"}
    (result,) = post(web, "/v1/couplet", body)["results"]
    assert result["second"][1] == "水"
    assert refusal(web, "/v1/couplet", body | {"keep": "？水"})["field"] == "keep"
    assert refusal(web, "/v1/couplet", body | {"tones": "loud"})["field"] == "tones"


def test_first_lines_need_a_model_of_both_directions(
    web: Any, tiny_models: Callable[[str], Path], tmp_path: Path
) -> None:
    body = {"texts": ["春风"], "backward": True}
    assert refusal(web, "/v1/couplet", body)["field"] == "backward"
    write_two_way_model(tiny_models("couplet"), tmp_path / "model")
    own = Service.load({"couplet": tmp_path / "model"}, ServiceConfig(), device="cpu")
    with pytest.raises(UserError, match="max_beam must be 5 or more, not 4"):
        Service.load({"couplet": None}, ServiceConfig(max_beam=4), device="cpu")
    writer, other = own.predictor("couplet"), client_of(own)
    for backward in (True, False):
        (result,) = post(other, "/v1/couplet", body | {"backward": backward})["results"]
        assert result["second"] == writer.answer("春风", backward=backward)
    (about,) = other.get("/v1/models").json()["models"]
    assert about["backward"] is True
    own.close()


def test_scores_are_the_translators(web: Any) -> None:
    body = {"task": "translation", "sources": TEXTS, "targets": TEXTS[::-1]}
    results = post(web, "/v1/score", body)["results"]
    expected = predictors()["translation"].score(TEXTS, TEXTS[::-1])
    assert [result["log_prob"] for result in results] == pytest.approx(
        [score.log_prob for score in expected], abs=1e-4
    )
    assert [result["source"] for result in results] == TEXTS


def test_attention_is_the_translators(web: Any) -> None:
    translator = predictors()["translation"]
    source = "ein Hund rennt ."
    target = translator.translate(source)
    (own,) = translator.attention(source)
    body = {"task": "translation", "source": source, "target": target}
    found = post(web, "/v1/attention", body)
    assert (found["source"], found["target"]) == (own.source, own.written)
    assert (found["layer"], found["layers"], found["heads"]) == (1, 1, 2)
    for head in range(2):
        for row, expected in zip(found["weights"][head], own.cross[0][head], strict=True):
            assert row == pytest.approx(expected.tolist(), abs=1e-3)
    assert refusal(web, "/v1/attention", {**body, "layer": 2})["field"] == "layer"
    long = {**body, "source": "ein " * 200}
    assert refusal(web, "/v1/attention", long)["field"] == "source"


def test_a_trace_is_the_predictors(web: Any) -> None:
    """With the beam, the beginning and the comparison that are asked for; errors name the field."""
    translator, body = predictors()["translation"], {"task": "translation", "text": "ein Hund"}
    own = translator.trace("ein Hund", beam=2)
    assert post(web, "/v1/trace", {**body, "beam": 2}) == json.loads(own.to_json())
    found = post(web, "/v1/trace", {**body, "prefix": "das Haus"})
    assert [token for token, _ in found["target"][1:3]] == ["das", "Haus"]
    news = {"task": "classification", "text": "shares fall"}
    assert post(web, "/v1/trace", news)["decision"]["words"]
    for wrong, field in (
        ({**body, "text": "Hund " * 61}, "text"),
        ({**body, "text": ""}, "text"),
        ({**body, "prefix": "xyzzy"}, "prefix"),
        ({**body, "beam": 17}, "beam"),
        ({**news, "beam": 2}, "task"),
    ):
        assert refusal(web, "/v1/trace", wrong)["field"] == field


def test_models_and_health(web: Any) -> None:
    found = web.get("/v1/models").json()
    translation, classification, couplet = found["models"]
    assert (translation["source"], translation["target"]) == ("de", "en")
    assert classification["classes"] == predictors()["classification"].classes
    assert couplet["defaults"]["beam"] == 1
    assert found["limits"]["max_texts"] == 100
    assert web.get("/v1/health").json()["status"] == "ok"


def test_a_task_that_is_not_offered() -> None:
    web = client(["couplet"])
    for path in ("translate", "classify"):
        assert "no model" in refusal(web, f"/v1/{path}", {"texts": ["a"]}, 404)["error"]
    assert web.get("/v1/health").json()["tasks"] == ["couplet"]
    assert web.get("/languages").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "field", "reason"),
    [
        ("translate", {"texts": "one"}, 400, "texts", "valid list"),
        ("translate", [], 400, None, "JSON object"),
        ("translate", b"{", 400, None, "not valid JSON"),
        ("translate", b'{"texts": ["\\ud800"]}', 400, "texts[0]", ""),
        ("translate", b'{"\\ud800": 1, "texts": []}', 400, None, "in UTF-8"),
        ("translate", b'{"texts": [], "seed": ' + b"9" * 5000 + b"}", 400, None, ""),
        ("translate", b'{"texts": [], "seed": 1e400}', 400, "seed", ""),
        ("translate", b'{"texts": [], "temperature": NaN}', 400, "temperature", ""),
        ("translate", {"texts": ["a", 1]}, 400, "texts[1]", "valid string"),
        ("translate", {"texts": [], "baem": 2}, 400, "baem", "did you mean 'beam'?"),
        ("translate", {"texts": [], "beam_size": 2}, 400, "beam_size", "did you mean 'beam'?"),
        ("translate", {"texts": [], "beam": 0}, 400, "beam", "greater"),
        ("translate", {"texts": [], "beam": 17}, 400, "beam", "at most 16"),
        ("translate", {"texts": [], "n_best": 9}, 400, "n_best", "width of the beam"),
        ("translate", {"texts": [], "seed": 1}, 400, "seed", "without sampling"),
        ("translate", {"texts": [], "int8": True}, 400, "int8", "unknown option"),
        ("translate", {"texts": [], "prefix": "Katze"}, 400, "prefix", "does not know"),
        ("translate", {"texts": [], "pass_through": True}, 400, "pass_through", "calibrate"),
        ("translate", {"texts": ["a"] * 101}, 413, "texts", "at most 100"),
        ("translate", {"texts": ["", "a" * 5001]}, 413, "texts[1]", "at most 5,000"),
        ("couplet", {"texts": ["abc"]}, 400, "texts", "no Chinese character"),
        ("couplet", {"texts": ["风"], "candidates": 2, "beam": 2}, 400, "beam", "for candidates"),
        ("couplet", {"texts": ["风"], "candidates": 51}, 400, "candidates", "at most 50"),
        ("classify", {"texts": [], "top": 9}, 400, "top", "from 1 to 5"),
        ("score", {"task": "poem", "sources": [], "targets": []}, 400, "task", "translation"),
        ("score", {"task": "couplet", "sources": ["a"], "targets": []}, 400, "targets", "1 source"),
    ],
)
def test_a_bad_request_is_refused_by_the_name_of_its_field(
    web: Any,
    capfd: pytest.CaptureFixture[str],
    path: str,
    body: object,
    status: int,
    field: str | None,
    reason: str,
) -> None:
    found = refusal(web, f"/v1/{path}", body, status)
    assert found.get("field") == field
    assert reason in found["error"]
    assert capfd.readouterr().err == ""


def test_other_types_of_body_are_refused(web: Any) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        content = json.dumps({"texts": []})
        answer = web.post("/v1/translate", content=content, headers={"Content-Type": kind})
        assert answer.status_code == 400
        assert "application/json" in answer.json()["error"]


def test_answers_do_not_depend_on_who_else_asks() -> None:
    """Twenty clients at the same time, with equal and other options, and each of them alone."""
    own, generator = service(["translation"]), random.Random(1)
    options = [{}, {}, {"beam": 3}, {"sample": True, "seed": 3, "temperature": 3.0}]
    bodies = [
        {"texts": generator.choices(TEXTS, k=generator.randrange(5)), **generator.choice(options)}
        for _ in range(20)
    ]

    async def together() -> list[Any]:
        async with async_client(own) as web:
            posts = [web.post("/v1/translate", json=body) for body in bodies]
            return [answer.json() for answer in await asyncio.gather(*posts)]

    found = asyncio.run(together())
    web = client_of(own)
    assert found == [post(web, "/v1/translate", body) for body in bodies]
    own.close()


def test_requests_that_arrive_together_are_computed_together() -> None:
    own = service(["translation"])

    async def together() -> None:
        async with async_client(own) as web:
            posts = [web.post("/v1/translate", json={"texts": [TEXTS[0]]}) for _ in range(40)]
            for answer in await asyncio.gather(*posts):
                assert answer.status_code == 200

    asyncio.run(together())
    sample = own.metrics.registry.get_sample_value
    count = sample("transformer_suite_batch_items_count", {"model": "translation"})
    assert count is not None and count < 20
    own.close()


def test_work_stops_when_its_client_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search would go on for ever; the next client is answered all the same."""
    own = service(["couplet"])
    writer = own.predictors["couplet"]
    steps, is_endless = 0, True
    generate = writer.generate

    def endless(texts: Any, request: GenerationRequest) -> Any:
        nonlocal steps
        while texts and is_endless:
            steps += 1
            request.on_step()
        return generate(texts, replace(request, numbers=None))

    monkeypatch.setattr(writer, "generate", endless)

    async def leave() -> None:
        messages = iter([{"type": "http.request", "body": json.dumps({"texts": ["风"]}).encode()}])

        async def receive() -> Any:
            for message in messages:
                return message
            while steps == 0:  # another thread counts
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError("nobody is there")

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/couplet",
            "query_string": b"",
            "headers": headers,
        }
        await asyncio.wait_for(create_app(own)(scope, receive, send), 20)

    asyncio.run(leave())
    is_endless = False
    assert post(client_of(own), "/v1/couplet", {"texts": ["风"]})["results"]
    own.close()


def test_the_openapi_document_and_its_page(web: Any) -> None:
    document = web.get("/v1/openapi.json").json()
    assert document["openapi"].startswith("3.")
    page = web.get("/v1/docs").text
    for path, operations in document["paths"].items():
        assert path in page
        for operation in operations.values():
            assert "422" not in operation["responses"]
    for name in TranslateBody.model_fields:
        assert f"<code>{name}</code>" in page
    assert "<code>n_best</code></td><td>integer from 1 to 1000</td>" in page
    assert "http:" not in page and "https:" not in page and HOST not in page
