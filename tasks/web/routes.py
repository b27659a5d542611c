"""The interface under ``/v1/``."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from core.errors import TextError
from tasks.classification.explain import explain
from tasks.classification.predict import Classifier
from tasks.couplet.layout import banner
from tasks.task import task_named
from tasks.texts import check_unicode
from tasks.translation.segments import line_start, sentences
from tasks.web import schemas
from tasks.web.config import ServiceConfig, key_in
from tasks.web.errors import RequestError
from tasks.web.scheduler import Work
from tasks.web.schemas import Answer, Error, Results
from tasks.web.service import Client, Offered, plain

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": description}
    for status, description in {
        400: "A request that cannot be used.",
        401: "The API key is missing or unknown.",
        404: "There is no model of this task.",
        413: "Too much text, or too much computing.",
        429: "Too many requests; see Retry-After.",
        503: "The service is busy; see Retry-After.",
    }.items()
}


async def _check_key(request: Request, service: Offered) -> None:
    config = service.config
    if config.api_keys and not config.knows_key(key_in(request.headers)):
        message = "an API key is needed: Authorization: Bearer KEY"
        raise RequestError(401, message, WWW_Authenticate="Bearer")


router = APIRouter(prefix="/v1", tags=["v1"], dependencies=[Depends(_check_key)], responses=_ERRORS)
public = APIRouter(prefix="/v1", tags=["v1"])

_MAX_ATTENTION_TOKENS = 128
# The cost of a character (see tasks.web.scheduler), as measured.
_CLASSIFY_RATE, _EXPLAIN_RATE = 0.2, 10.0


@router.post("/translate", summary="Translate texts", response_model=Results)
async def translate(body: schemas.TranslateBody, client: Client) -> JSONResponse:
    check_texts(client.config, body.texts)
    if not body.sentences:
        return _answer(body.texts, await _search("translation", body, body.texts, client))
    parts = [_sentences(text) for text in body.texts]
    texts = [sentence for part in parts for sentence, _ in part]
    records = iter(await _search("translation", body, texts, client))
    return _answer(body.texts, [_joined(part, [*islice(records, len(part))]) for part in parts])


@router.post("/couplet", summary="Answer first lines of Chinese couplets", response_model=Results)
async def couplet(body: schemas.CoupletBody, client: Client) -> JSONResponse:
    check_texts(client.config, body.texts)
    records = await _search("couplet", body, body.texts, client)
    for text, record in zip(body.texts, records, strict=True) if body.banner else ():
        given = "".join(text.split())
        for answer in (record, *record.get("hypotheses", ())):
            pair = (answer["second"], given) if body.backward else (given, answer["second"])
            answer["banner"] = banner(*pair)
    return _answer(body.texts, records)


@router.post("/classify", summary="Classify news texts", response_model=Results)
async def classify(body: schemas.ClassifyBody, client: Client) -> JSONResponse:
    check_texts(client.config, body.texts)
    classifier = client.service.predictor("classification")
    if body.top is not None and body.top > (most := len(classifier.classes)):
        raise RequestError(400, f"top must be from 1 to {most}, the classes", field="top")
    work = Work(_in_batches, (Classifier.classify_scored, classifier), _CLASSIFY_RATE)
    results = await client.compute("classification", work, body.texts)
    records = [result.record() for result in results]
    for record in records:
        record["probabilities"] = dict(islice(record["probabilities"].items(), body.top))
    if body.explain:
        work = Work(_in_batches, (explain, classifier), _EXPLAIN_RATE)
        explanations = await client.compute("classification", work, body.texts)
        for record, explanation in zip(records, explanations, strict=True):
            record["explanation"] = explanation.record()
    return _answer(body.texts, records)


@router.post("/score", summary="How probable is each target?", response_model=Results)
async def score_pairs(body: schemas.ScoreBody, client: Client) -> JSONResponse:
    check_texts(client.config, body.sources, field="sources")
    check_texts(client.config, body.targets, field="targets")
    if len(body.sources) != len(body.targets):
        message = f"{len(body.sources)} sources, but {len(body.targets)} targets"
        raise RequestError(400, message, field="targets")
    pairs = [*zip(body.sources, body.targets, strict=True)]
    work = Work(_in_batches, (_score, client.service.predictor(body.task)), 1)
    rows = zip(pairs, await client.compute(body.task, work, pairs), strict=True)
    records = [{"source": s, "target": t, **result.record()} for (s, t), result in rows]
    return JSONResponse({"results": plain(records)})


@router.post("/attention", summary="From an output to its source", response_model=Answer)
async def attention(body: schemas.AttentionBody, client: Client) -> JSONResponse:
    check_texts(client.config, [body.source], field="source")
    check_texts(client.config, [body.target], field="target")
    predictor = client.service.predictor(body.task)
    if len(predictor.models) > 1:
        raise RequestError(400, "an ensemble has no attention of its own", field="task")
    most = predictor.models[0].config.num_decoder_layers
    layer = body.layer or most
    if layer > most:
        raise RequestError(400, f"layer must be from 1 to {most}", field="layer")
    work = Work(_attention, (predictor, layer), 1)
    (maps,) = await client.compute(body.task, work, [(body.source, body.target)])
    return JSONResponse(plain(maps))


@router.post("/trace", summary="Show a prediction step by step", response_model=Answer)
async def trace(body: schemas.TraceBody, client: Client) -> Response:
    check_texts(client.config, [body.text], field="text")
    options = body.model_dump(exclude_none=True, exclude={"task", "text"})
    has_search, predictor = task_named(body.task).has_search, client.service.predictor(body.task)
    if options and not has_search:
        raise RequestError(400, f"a {body.task} has no {next(iter(options))}", field="task")
    rate = client.service.search_work(body.task, options).rate if has_search else _EXPLAIN_RATE
    work = Work(_traces, (predictor, options if has_search else None), rate)
    (found,) = await client.compute(body.task, work, [body.text])
    return Response(found, media_type="application/json")


@router.get("/models", summary="The models and the limits of this service")
async def models(service: Offered) -> JSONResponse:
    return JSONResponse({"models": plain(service.models()), "limits": service.config.limits()})


@public.get("/health", summary="Whether the service is up")
async def health(service: Offered) -> JSONResponse:
    return JSONResponse({"status": "ok", "tasks": [*service.predictors]})


@router.get("/metrics", summary="For Prometheus", response_class=PlainTextResponse)
async def prometheus(service: Offered) -> Response:
    text = generate_latest(service.metrics.registry)
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


# What is computed in the turns of a request; see Work.


def _in_batches(function: Any, predictor: Any, items: Any, numbers: Any, check: Any) -> Any:
    return function(predictor, items, on_batch=lambda count: check())


def _score(predictor: Any, pairs: Any, **options: Any) -> Any:
    return predictor.score(*zip(*pairs, strict=True), **options)


def _attention(predictor: Any, layer: int, pairs: Any, numbers: Any, check: Any) -> Any:
    return [_attention_map(predictor, layer, *pair) for pair in pairs]


def _attention_map(predictor: Any, layer: int, source: str, target: str) -> dict[str, Any]:
    """Returns the tokens and the weights ``[H, T, S]`` of a layer, whose rows sum to 1."""
    limit = min(_MAX_ATTENTION_TOKENS, predictor.max_len) - 1
    sides = ("source", predictor.source, source), ("target", predictor.target, target)
    for field, codec, text in sides:
        if (count := len(codec.encode(text))) > limit:
            message = f"attention is shown for at most {limit} tokens, not {count}"
            raise RequestError(400, message, field=field)
    (maps,) = predictor.attention(source, target)
    layers, heads = maps.cross.shape[:2]
    answer = {"source": maps.source, "target": maps.written, "layers": layers, "heads": heads}
    return answer | {"layer": layer, "weights": maps.cross[layer - 1].round(3).tolist()}


def _traces(predictor: Any, options: Any, texts: Any, numbers: Any, check: Any) -> Any:
    own = {} if options is None else {**options, "on_step": check}
    try:
        return [predictor.trace(text, **own).to_json() for text in texts]
    except TextError as error:
        raise RequestError(400, str(error), field="text") from error


async def _search(task: str, body: Any, texts: Sequence[str], client: Client) -> Any:
    """Returns the record of each text, with its hypotheses where several are asked for."""
    options = body.options()
    work = client.service.search_work(task, options)
    results = await client.compute(task, work, texts)
    records = [result.record() for result in results]
    if options.keys() & {"n_best", "candidates"}:
        for record, result in zip(records, results, strict=True):
            record["hypotheses"] = [other.record() for other in result.hypotheses]
    return records


def check_texts(config: ServiceConfig, texts: Sequence[str], *, field: str = "texts") -> None:
    """Raises a RequestError for texts that are too many, too long or not valid Unicode."""
    if len(texts) > config.max_texts:
        raise RequestError(413, f"{len(texts)} texts; at most {config.max_texts}", field=field)
    for number, text in enumerate(texts):
        name = f"{field}[{number}]"
        if len(text) > config.max_text:
            message = f"{len(text):,} characters; a text has at most {config.max_text:,}"
            raise RequestError(413, message, field=name)
        try:
            check_unicode(text, name)
        except TextError as error:
            raise RequestError(400, str(error), field=name) from error


def _answer(texts: Iterable[str], records: Iterable[dict[str, Any]]) -> JSONResponse:
    pairs = zip(texts, records, strict=True)
    return JSONResponse({"results": [{"input": text, **plain(record)} for text, record in pairs]})


def _sentences(text: str) -> list[tuple[str, str]]:
    """Returns the sentences of every line, each with the white space after it.

    What a line begins with, such as the number of a list, is the space after an empty sentence.
    """
    parts, lines = list[tuple[str, str]](), text.splitlines(keepends=True)
    for line in lines:
        start = line_start(line, is_alone=len(lines) == 1)
        parts += [("", line[:start])] if start else []
        parts += [(s.rstrip(), s[len(s.rstrip()) :]) for s in sentences(line[start:])]
    return parts


def _joined(parts: Sequence[tuple[str, str]], records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the record of a text whose sentences were translated one by one."""
    of_sentences = [
        {"input": sentence, "space": space, **record}
        for (sentence, space), record in zip(parts, records, strict=True)
    ]
    return {
        "translation": "".join(part["translation"] + part["space"] for part in of_sentences),
        "score": sum(record["score"] for record in records),
        "sentences": of_sentences,
    }
