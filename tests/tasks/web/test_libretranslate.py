"""LibreTranslate's interface: requests of the form that its documentation gives."""

from copy import copy
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from tasks.translation.language import LanguageDetector
from tasks.web.scheduler import Scheduler
from tests.tasks.web.services import client, client_of, post, predictors, refusal, service

TEXTS = ["ein Hund rennt .", "das Haus sieht er nicht ."]
BODY = {"q": TEXTS[0], "source": "de", "target": "en"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def web() -> Any:
    """A service whose translator tells its languages apart."""
    own = service()
    translator = copy(own.predictors["translation"])
    german = ["Die Kinder spielen im Schnee.", "ein Hund rennt .", "das Haus sieht er nicht ."]
    english = ["The children play in the snow.", "a dog runs .", "The house is on the hill."]
    translator.language = LanguageDetector.fit(german * 9, english * 9)
    own.predictors["translation"] = translator
    return client_of(own)


@pytest.fixture(scope="module")
def expected() -> list[str]:
    translations: list[str] = predictors()["translation"].translate(TEXTS)
    return translations


def test_a_text(web: Any, expected: list[str]) -> None:
    body = {**BODY, "format": "text", "api_key": ""}
    assert post(web, "/translate", body) == {"translatedText": expected[0]}
    answer = web.post("/translate", content=urlencode(body), headers=FORM)
    assert answer.json() == {"translatedText": expected[0]}


def test_several_texts_of_a_language_to_be_found(web: Any, expected: list[str]) -> None:
    texts = [*TEXTS, "The house is on the hill."]
    found = post(web, "/translate", {"q": texts, "source": "auto", "target": "en"})
    assert found["translatedText"] == [*expected, texts[2]]
    assert [each["language"] for each in found["detectedLanguage"]] == ["de", "de", "en"]
    found = post(web, "/translate", {**BODY, "source": "auto"})
    assert found["translatedText"] == expected[0]
    assert found["detectedLanguage"]["language"] == "de"


def test_alternatives(web: Any) -> None:
    own = predictors()["translation"].translate_scored(TEXTS[0], n_best=3)
    found = post(web, "/translate", {**BODY, "alternatives": 2})
    assert [found["translatedText"], *found["alternatives"]] == [h.text for h in own.hypotheses]
    assert len(post(web, "/translate", {**BODY, "alternatives": 9})["alternatives"]) == 9


def test_languages(web: Any) -> None:
    german, english = web.get("/languages").json()
    assert german == {"code": "de", "name": "German", "targets": ["de", "en"]}
    assert (english["code"], english["targets"]) == ("en", ["en"])


def test_detect(web: Any) -> None:
    (found,) = post(web, "/detect", {"q": "Die Kinder spielen im Schnee."})
    assert found["language"] == "de"
    assert 50 < found["confidence"] <= 100
    (found,) = post(web, "/detect", {"q": ""})
    assert found["confidence"] == 0


def test_short_texts_and_other_languages_are_unknown_and_translated(web: Any) -> None:
    """ "Hallo" was English, and came back untouched."""
    for text in ("Hallo", "Un chien court sur la plage."):
        (found,) = post(web, "/detect", {"q": text})
        assert found == {"confidence": 0, "language": "unknown"}
    found = post(web, "/translate", {"q": "Hallo", "source": "auto", "target": "en"})
    assert found["translatedText"] != "Hallo"


def test_a_model_that_is_not_calibrated_knows_no_language() -> None:
    own = service()
    own.predictors["translation"] = copy(own.predictors["translation"])
    own.predictors["translation"].language = None
    (found,) = post(client_of(own), "/detect", {"q": "The house is on the hill."})
    assert found == {"confidence": 0, "language": "unknown"}
    own.close()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"source": "de", "target": "en"}, "q"),
        ({**BODY, "q": [1]}, "q[0]"),
        ({**BODY, "q": []}, "q"),
        ({**BODY, "q": "\ud800"}, "q[0]"),
        ({**BODY, "source": "fr"}, "source"),
        ({**BODY, "target": "de", "source": "en"}, "target"),
        ({**BODY, "format": "html"}, "format"),
        ({**BODY, "alternatives": 16}, "alternatives"),
        ({**BODY, "alternatives": True}, "alternatives"),
        (b"{", None),
        (b'{"q": ' + b"9" * 5000 + b"}", None),
    ],
)
def test_a_bad_request_is_refused(web: Any, body: object, field: str | None) -> None:
    assert refusal(web, "/translate", body).get("field") == field


def test_other_bodies_are_refused(web: Any) -> None:
    answer = web.post("/translate", content=b"q", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    many = "&".join(f"q{i}=" for i in range(2000))
    assert web.post("/translate", content=many, headers=FORM).status_code == 400
    assert web.post("/detect", content=b"q=%ff", headers=FORM).status_code == 400


def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    put, clients = Scheduler.put, list[str]()
    monkeypatch.setattr(
        Scheduler, "put", lambda self, job: (clients.append(job.client), put(self, job))
    )
    web = client(api_keys=("first-key", "second-key"))
    assert refusal(web, "/translate", BODY, 403)["field"] == "api_key"
    assert post(web, "/translate", {**BODY, "api_key": "first-key"})["translatedText"]
    answer = web.post("/detect", json={"q": "a"}, headers={"Authorization": "Bearer first-key"})
    assert answer.status_code == 200
    for body in (BODY, {**BODY, "api_key": "first-key"}):
        web.post("/translate", json=body, headers={"X-API-Key": "second-key"})
    assert clients == ["first-key", "second-key", "first-key"]
