"""The interface of LibreTranslate, so that its clients work with this service unchanged.

``POST /translate``, ``GET /languages`` and ``POST /detect`` as https://docs.libretranslate.com
describes them, with JSON or URL-encoded form bodies.
"""

from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema
from starlette.responses import JSONResponse

from core.config import check_choice
from core.errors import ConfigError
from tasks.web.config import key_in
from tasks.web.errors import RequestError, request_error
from tasks.web.routes import check_texts
from tasks.web.service import Client, Offered, Service

_FORM = "application/x-www-form-urlencoded"
_MAX_FIELDS = 1000
_STRINGS = {"type": "array", "items": {"type": "string"}}
_NAMES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ru": "Russian",
    "zh": "Chinese",
}


class Query(BaseModel):
    """What all bodies have: one text or several."""

    q: Annotated[
        list[str],
        Field(min_length=1),
        BeforeValidator(lambda q: [q] if isinstance(q, str) else q),
        WithJsonSchema({"anyOf": [{"type": "string"}, _STRINGS]}),
    ]
    api_key: str | None = None


class TranslationQuery(Query):
    """Texts to translate."""

    source: str = Field(description="auto, or a language of /languages.")
    target: str = Field(description="A language of /languages.")
    format: Literal["text"] = "text"
    alternatives: int = Field(0, ge=0, description="The number of other translations.")


Q = TypeVar("Q", bound=Query)


def _body(kind: type[Query]) -> dict[str, Any]:
    """Returns the description of a body for the OpenAPI document."""
    content = {"schema": kind.model_json_schema()}
    statuses = {"400": "A request that cannot be used.", "413": "Too much text."}
    return {
        "requestBody": {"required": True, "content": {"application/json": content, _FORM: content}},
        "responses": {status: {"description": text} for status, text in statuses.items()},
    }


router = APIRouter(tags=["LibreTranslate"])


@router.get("/languages", summary="The languages of the translation model")
async def languages(service: Offered) -> JSONResponse:
    source, target = service.languages()
    targets = {source: [source, target], target: [target]}
    both = [{"code": c, "name": _NAMES.get(c, c), "targets": t} for c, t in targets.items()]
    return JSONResponse(both)


@router.post("/translate", summary="Translate texts", openapi_extra=_body(TranslationQuery))
async def translate(request: Request, client: Client) -> JSONResponse:
    service = client.service
    query, is_text = await _read(TranslationQuery, request, service)
    client.identify(query.api_key or key_in(request.headers))
    languages, most = service.languages(), service.config.max_beam - 1
    try:
        check_choice("source", query.source, ["auto", *languages])
        check_choice("target", query.target, languages)
    except ConfigError as error:
        raise request_error(error) from error
    if query.alternatives > most:
        message = f"alternatives must be from 0 to {most}"
        raise RequestError(400, message, field="alternatives")
    texts, is_auto, count = query.q, query.source == "auto", query.alternatives
    detected = [service.detect_language(text) for text in texts]
    codes = [each["language"] if is_auto else query.source for each in detected]
    if query.target == languages[0] and languages[1] in codes:
        message = "{1} cannot be translated into {0}".format(*languages)
        raise RequestError(400, message, field="target")
    is_possible = query.target == languages[1]
    chosen = [i for i, code in enumerate(codes) if is_possible and code != query.target]
    options = {"n_best": count + 1} if count else {}
    if count >= service.predictor("translation").generation.beam_size:
        options["beam_size"] = count + 1
    work = service.search_work("translation", options)
    results = await client.compute("translation", work, [texts[i] for i in chosen])
    translations, others = list(texts), [list[str]() for _ in texts]
    for i, result in zip(chosen, results, strict=True):
        translations[i] = result.text
        others[i] = [other.text for other in result.others]
    answer: dict[str, Any] = {"translatedText": translations}
    if is_auto:
        answer["detectedLanguage"] = detected
    if count:
        answer["alternatives"] = others
    if is_text:
        answer = {name: values[0] for name, values in answer.items()}
    return JSONResponse(answer)


@router.post("/detect", summary="Detect the language of a text", openapi_extra=_body(Query))
async def detect(request: Request, service: Offered) -> JSONResponse:
    query, _ = await _read(Query, request, service)
    return JSONResponse([service.detect_language(query.q[0])])


async def _read(kind: type[Q], request: Request, service: Service) -> tuple[Q, bool]:
    """Returns a JSON or form body, and whether ``q`` is one text; checks its API key."""
    media = request.headers.get("content-type", "").partition(";")[0].strip()
    if media not in ("application/json", _FORM):
        raise RequestError(415, "the body must be JSON or a URL-encoded form")
    options: dict[str, Any] = {"errors": "strict", "max_num_fields": _MAX_FIELDS}
    try:
        if media == _FORM:
            text = (await request.body()).decode()
            fields = parse_qs(text, keep_blank_values=True, **options)
            body = {name: v[0] if len(v) == 1 else v for name, v in fields.items()}
        else:
            body = await request.json()
        query = kind.model_validate(body, strict=media != _FORM)
    except RecursionError as error:
        raise RequestError(400, "the JSON is nested too deeply") from error
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error
    except ValueError as error:
        raise RequestError(400, f"the body cannot be read: {error}") from error
    keys = service.config.api_keys
    if keys and not service.config.knows_key(query.api_key or key_in(request.headers)):
        raise RequestError(403, "an API key is needed", field="api_key")
    check_texts(service.config, query.q, field="q")
    return query, isinstance(body["q"], str)
