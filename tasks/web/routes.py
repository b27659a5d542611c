"""The interface under ``/v1/``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from core.errors import UserError
from tasks.texts import check_unicode
from tasks.translation.segments import sentences
from tasks.web import metrics
from tasks.web.batching import Work
from tasks.web.config import ServiceConfig
from tasks.web.errors import RequestError, request_error
from tasks.web.schemas import (
    Answer,
    AttentionBody,
    ClassifyBody,
    CoupletBody,
    Error,
    Results,
    ScoreBody,
    Texts,
    TranslateBody,
)
from tasks.web.service import Service, plain
from tasks.web.work import AttentionMaps, Classify, Explain, Score

Route = Callable[..., Awaitable[Response]]
Decorator = Callable[[Route], Route]

_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Error, "description": "A request that cannot be used."},
    401: {"model": Error, "description": "The API key is missing or unknown."},
    404: {"model": Error, "description": "There is no model of this task."},
    413: {"model": Error, "description": "Too much text, or too much computing."},
    429: {"model": Error, "description": "Too many requests; see Retry-After."},
    503: {"model": Error, "description": "The service is busy; see Retry-After."},
}


def v1_routes(service: Service) -> APIRouter:
    """Returns the routes of a service."""
    router = APIRouter(prefix="/v1", tags=["v1"])
    config = service.config

    def post(path: str, summary: str, model: type[Answer] = Results) -> Decorator:
        responses = {200: {"model": model}, **_ERRORS}
        return router.post(path, summary=summary, response_model=None, responses=responses)

    def get(path: str, summary: str, kind: type[Response] = JSONResponse) -> Decorator:
        return router.get(path, summary=summary, response_model=None, response_class=kind)

    @post("/translate", "Translate texts")
    async def translate(body: TranslateBody, request: Request) -> Response:
        if not body.sentences:
            return _answer(body.texts, await search("translation", body, body.texts, request))
        check_texts(config, body.texts)
        parts = [_sentences(text) for text in body.texts]
        texts = [text.strip() for part in parts for text in part]
        records = iter(await search("translation", body, texts, request))
        joined = [_joined(part, list(islice(records, len(part)))) for part in parts]
        return _answer(body.texts, joined)

    @post("/couplet", "Answer first lines of Chinese couplets")
    async def couplet(body: CoupletBody, request: Request) -> Response:
        check_texts(config, body.texts)
        return _answer(body.texts, await search("couplet", body, body.texts, request))

    @post("/classify", "Classify news texts")
    async def classify(body: ClassifyBody, request: Request) -> Response:
        check_texts(config, body.texts)
        classifier = service.predictor("classification")
        if body.top is not None and body.top > (most := len(classifier.classes)):
            raise RequestError(400, f"top must be from 1 to {most}, the classes", field="top")

        async def compute(work: Work) -> list[Any]:
            lengths = [*map(len, body.texts)]
            return await service.compute(
                "classification", work, body.texts, lengths, request.receive
            )

        records = [result.record() for result in await compute(Classify(classifier))]
        for record in records:
            record["probabilities"] = dict(islice(record["probabilities"].items(), body.top))
        if body.explain:
            explanations = await compute(Explain(classifier))
            for record, explanation in zip(records, explanations, strict=True):
                record["explanation"] = explanation.record()
        return _answer(body.texts, records)

    @post("/score", "Score pairs: how probable is each target, given its source?")
    async def score(body: ScoreBody, request: Request) -> Response:
        check_texts(config, body.sources, field="sources")
        check_texts(config, body.targets, field="targets")
        if len(body.sources) != len(body.targets):
            message = f"{len(body.sources)} sources, but {len(body.targets)} targets"
            raise RequestError(400, message, field="targets")
        pairs = [*zip(body.sources, body.targets, strict=True)]
        lengths = [len(source) + len(target) for source, target in pairs]
        work = Score(service.predictor(body.task))
        scores = await service.compute(body.task, work, pairs, lengths, request.receive)
        rows = zip(pairs, scores, strict=True)
        records = [{"source": s, "target": t, **result.record()} for (s, t), result in rows]
        return JSONResponse({"results": plain(records)})

    @post("/attention", "Show the attention between a source and its output", Answer)
    async def attention(body: AttentionBody, request: Request) -> Response:
        check_texts(config, [body.source], field="source")
        check_texts(config, [body.target], field="target")
        predictor = service.predictor(body.task)
        if len(predictor.models) > 1:
            raise RequestError(400, "an ensemble has no attention of its own", field="task")
        most = predictor.models[0].config.num_decoder_layers
        layer = body.layer or most
        if layer > most:
            raise RequestError(400, f"layer must be from 1 to {most}", field="layer")
        work, pair = AttentionMaps(predictor, layer), (body.source, body.target)
        length = len(body.source) + len(body.target)
        (maps,) = await service.compute(body.task, work, [pair], [length], request.receive)
        return JSONResponse(plain(maps))

    @get("/models", "The models and the limits of this service")
    async def models() -> Response:
        return JSONResponse({"models": plain(service.models()), "limits": config.limits()})

    @get("/health", "Whether the service is up")
    async def health() -> Response:
        return JSONResponse({"status": "ok", "tasks": [*service.predictors]})

    @get("/metrics", "Metrics in the text format of Prometheus", PlainTextResponse)
    async def prometheus() -> Response:
        return Response(service.metrics.text(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def search(
        task: str, body: Texts, texts: Sequence[str], request: Request
    ) -> list[dict[str, Any]]:
        check_texts(config, body.texts)
        options = body.options()
        is_backward = isinstance(body, CoupletBody) and body.backward
        work = service.search_work(task, options, is_backward=is_backward)
        lengths = [*map(len, texts)]
        results = await service.compute(task, work, texts, lengths, request.receive)
        records = [result.record() for result in results]
        if options.keys() & {"n_best", "candidates"}:
            for record, result in zip(records, results, strict=True):
                record["hypotheses"] = [other.record() for other in result.hypotheses]
        return records

    return router


def check_texts(config: ServiceConfig, texts: Sequence[str], *, field: str = "texts") -> None:
    """Refuses texts that are too many, too long, or not valid Unicode.

    Raises:
        RequestError: 400 or 413; it names the field.
    """
    if len(texts) > config.max_texts:
        raise RequestError(413, f"{len(texts)} texts; at most {config.max_texts}", field=field)
    for number, text in enumerate(texts):
        name = f"{field}[{number}]"
        if len(text) > config.max_text:
            message = f"{len(text):,} characters; a text has at most {config.max_text:,}"
            raise RequestError(413, message, field=name)
        try:
            check_unicode(text, name)
        except UserError as error:
            raise RequestError(400, request_error(error).message, field=name) from error


def _answer(texts: Iterable[str], records: Iterable[dict[str, Any]]) -> Response:
    pairs = zip(texts, records, strict=True)
    return JSONResponse({"results": [{"input": text, **plain(record)} for text, record in pairs]})


def _sentences(text: str) -> list[str]:
    """Returns the sentences of every line, with the white space after them.

    White space at the beginning of a line is a part of its own.
    """
    parts: list[str] = []
    for line in text.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip())
        parts += [part for part in (line[:indent], *sentences(line[indent:])) if part]
    return parts


def _joined(parts: Sequence[str], records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the record of a text whose sentences were translated one by one."""
    spaces = [part[len(part.rstrip()) :] for part in parts]
    joined = zip(records, spaces, strict=True)
    of_sentences = [
        {"input": part.strip(), "space": space, **record}
        for part, space, record in zip(parts, spaces, records, strict=True)
    ]
    return {
        "translation": "".join(record["translation"] + space for record, space in joined),
        "score": sum(record["score"] for record in records),
        "sentences": of_sentences,
    }
