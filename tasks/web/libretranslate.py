"""The interface of LibreTranslate, so that its clients work with this service unchanged.

``POST /translate``, ``GET /languages`` and ``POST /detect`` as https://docs.libretranslate.com
describes them, with JSON or URL-encoded form bodies.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from core.errors import shown
from tasks.web.errors import RequestError
from tasks.web.gate import key_in
from tasks.web.routes import check_texts
from tasks.web.service import Client, Offered, Service

_MAX_FIELDS = 1000
_NAMES = {
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "zh": "Chinese",
}


def _extra(*fields: str) -> dict[str, Any]:
    """Returns the description of a body with these required fields, for the OpenAPI document."""
    properties: dict[str, Any] = {name: {"type": "string"} for name in fields}
    properties["q"] = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
    }
    schema = {"type": "object", "required": list(fields), "properties": properties}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    statuses = {"400": "A request that cannot be used.", "413": "Too much text."}
    return {
        "requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}},
        "responses": {status: {"description": text} for status, text in statuses.items()},
    }


router = APIRouter(tags=["LibreTranslate"])


@router.get("/languages", summary="The languages of the translation model")
async def languages(service: Offered) -> JSONResponse:
    source, target = service.languages()
    targets = {source: [source, target], target: [target]}
    return JSONResponse(
        [{"code": c, "name": _NAMES.get(c, c), "targets": t} for c, t in targets.items()]
    )


@router.post("/translate", summary="Translate texts", openapi_extra=_extra("q", "source", "target"))
async def translate(request: Request, client: Client) -> JSONResponse:
    service = client.service
    body = await _body(request, service)
    source, target = service.languages()
    q = _texts(body, service)
    _check_language("source", body, ["auto", source, target])
    _check_language("target", body, [source, target])
    if body.get("format", "text") != "text":
        raise RequestError(400, "format must be text: HTML is not translated", field="format")
    detected = [service.detect_language(text) for text in q]
    is_auto = body["source"] == "auto"
    codes = [d["language"] if is_auto else body["source"] for d in detected]
    if any(code == target and body["target"] == source for code in codes):
        raise RequestError(400, f"{target} cannot be translated into {source}", field="target")
    chosen = [i for i, code in enumerate(codes) if code != body["target"]]
    count = _alternatives(body, service)
    options = {"n_best": count + 1} if count else {}
    if count >= service.predictor("translation").generation.beam_size:
        options["beam_size"] = count + 1
    work = service.search_work("translation", options)
    results = await client.compute("translation", work, [q[i] for i in chosen])
    translations, others = list(q), [list[str]() for _ in q]
    for i, result in zip(chosen, results, strict=True):
        translations[i] = result.text
        others[i] = [other.text for other in result.others]
    answer: dict[str, Any] = {"translatedText": translations}
    if is_auto:
        answer["detectedLanguage"] = detected
    if count:
        answer["alternatives"] = others
    if isinstance(body["q"], str):
        answer = {name: values[0] for name, values in answer.items()}
    return JSONResponse(answer)


@router.post("/detect", summary="Detect the language of a text", openapi_extra=_extra("q"))
async def detect(request: Request, service: Offered) -> JSONResponse:
    body = await _body(request, service)
    return JSONResponse([service.detect_language(text) for text in _texts(body, service)[:1]])


async def _body(request: Request, service: Service) -> dict[str, Any]:
    """Returns the fields of a JSON or a form body; checks the API key, which may be one of them."""
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    body: Any
    try:
        if kind == "application/json":
            body = json.loads(raw)
        elif kind == "application/x-www-form-urlencoded":
            fields = parse_qs(
                raw.decode("utf-8"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MAX_FIELDS,
            )
            body = {name: v[0] if len(v) == 1 else v for name, v in fields.items()}
        else:
            raise RequestError(415, "the body must be JSON or a URL-encoded form")
    except RecursionError as error:
        raise RequestError(400, "the JSON is nested too deeply") from error
    except ValueError as error:
        raise RequestError(400, f"the body cannot be read: {error}") from error
    if not isinstance(body, dict):
        raise RequestError(400, "the body must be a JSON object")
    key = body.get("api_key") or key_in(request.headers)
    if service.config.api_keys and not (isinstance(key, str) and service.config.knows_key(key)):
        raise RequestError(403, "an API key is needed", field="api_key")
    return body


def _texts(body: dict[str, Any], service: Service) -> list[str]:
    q = body.get("q")
    texts = [q] if isinstance(q, str) else q
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or not texts:
        raise RequestError(400, "q must be a text or a list of texts", field="q")
    check_texts(service.config, texts, field="q")
    return texts


def _check_language(field: str, body: dict[str, Any], codes: list[str]) -> None:
    if body.get(field) not in codes:
        message = f"{field} must be one of {', '.join(codes)}, not {shown(body.get(field))}"
        raise RequestError(400, message, field=field)


def _alternatives(body: dict[str, Any], service: Service) -> int:
    value, most = body.get("alternatives", 0), service.config.max_beam - 1
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:20])
    if type(value) is not int or not 0 <= value <= most:
        message = f"alternatives must be from 0 to {most}"
        raise RequestError(400, message, field="alternatives")
    return value
