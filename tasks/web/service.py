"""The loaded models with their queues: what all routes of the service share."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import ClientDisconnect, Request

from core.config import check
from core.errors import UserError
from tasks.runs.checkpoint_folder import headline, model_folder, read_metrics
from tasks.seq2seq.request import GenerationRequest
from tasks.task import task_named
from tasks.web.config import ServiceConfig, key_in
from tasks.web.errors import RequestError, public_name, request_error
from tasks.web.metrics import Metrics
from tasks.web.scheduler import Job, Scheduler, Work

_LONGEST = 2000  # characters whose language is looked at

# The decimal places of numbers in answers. More digits would differ from batch to batch.
_DIGITS = 5


class Service:
    """The models that requests use, each with a queue, and what clients are told ``about`` them."""

    def __init__(
        self,
        predictors: Mapping[str, Any],
        config: ServiceConfig,
        *,
        about: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.predictors = dict(predictors)
        self.config = config
        self.metrics = Metrics()
        self.about = about or {}
        self.schedulers = {
            task: Scheduler(task, capacity=config.max_queue, metrics=self.metrics)
            for task in predictors
        }

    @classmethod
    def load(
        cls,
        folders: Mapping[str, Path | None],
        config: ServiceConfig,
        *,
        device: str,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "Service":
        """Loads the model of each task and tries it on a text; None for the shipped model.

        ``settings`` say how to load the models of some tasks. Raises a UserError if a model cannot
        be loaded, or if its outputs are not numbers.
        """
        predictors, about = {}, {}
        for task, folder in folders.items():
            how = (settings or {}).get(task, {})
            predictor: Any = task_named(task).load(folder, device=device, **how)
            predictor.try_out()
            predictors[task] = predictor
            if task_named(task).has_search:
                beam = predictor.generation.beam_size
                check(beam <= config.max_beam, "max_beam", config.max_beam, f"{beam} or more")
            metrics = read_metrics(model_folder(task, folder))
            about[task] = {"parameters": metrics.get("parameters"), "result": headline(metrics)}
            about[task]["shipped"] = folder is None
        return cls(predictors, config, about=about)

    def close(self) -> None:
        """Fails the requests that wait and ends the threads."""
        for scheduler in self.schedulers.values():
            scheduler.close()

    def predictor(self, task: str) -> Any:
        """Returns the predictor of ``task``. Raises a RequestError (404) if it is not offered."""
        if task not in self.predictors:
            raise RequestError(404, f"this service has no model of the task {task}", field="task")
        return self.predictors[task]

    def models(self) -> list[dict[str, Any]]:
        """Returns what clients may know about each model."""
        models = []
        for task, predictor in self.predictors.items():
            models.append({"task": task, **self.about.get(task, {}), **predictor.properties()})
            if defaults := models[-1].get("defaults"):
                models[-1]["defaults"] = {public_name(name): v for name, v in defaults.items()}
        return models

    def languages(self) -> tuple[str, str]:
        """Returns the codes of the source and the target language of the translation model."""
        data = self.predictor("translation").config.data
        return data.src, data.tgt

    def detect_language(self, text: str) -> dict[str, Any]:
        """Returns which of these languages ``text`` is in, and a confidence from 0 to 100.

        It is "unknown" for short texts, for other languages and if the model is not calibrated.
        """
        detector = self.predictor("translation").language
        side, share = (None, 0.0) if detector is None else detector.side(text[:_LONGEST])
        codes = dict(zip(("source", "target"), self.languages(), strict=True))
        return {"confidence": round(100 * share, 1), "language": codes.get(side or "", "unknown")}

    def search_work(self, task: str, options: Mapping[str, Any]) -> Work:
        """Returns the work of a search with ``options``, or raises a RequestError (400 or 404)."""
        predictor = self.predictor(task)
        try:
            request: GenerationRequest = predictor.request_type.of(**options)
            config = predictor.check(request)
        except UserError as error:
            raise request_error(error) from error
        for field, value, most in (
            ("beam", config.beam_size, self.config.max_beam),
            ("n_best", config.n_best, self.config.max_candidates),
            ("candidates", request.candidates or 0, self.config.max_candidates),
        ):
            if value > most:
                raise RequestError(400, f"{field} must be at most {most} here", field=field)
        rate = predictor.rows(request) * config.longest_output(100) / 100
        return Work(_search, (predictor, request), rate)


# FastAPI calls a dependency that is no coroutine in another thread.
async def _service_of(request: Request) -> Any:
    return request.app.state.service


Offered = Annotated[Service, Depends(_service_of)]


class Caller:
    """The client of a request, who may leave before the answer."""

    def __init__(self, service: Offered, request: Request) -> None:
        self.service = service
        self.config = service.config
        self._receive = request.receive
        self._address = request.client.host if request.client else ""
        self.identify(key_in(request.headers))

    def identify(self, key: str) -> None:
        """Names the client by its API key, or by its address if the key is not known."""
        self.name = self.config.client(key, self._address)

    async def compute(self, task: str, work: Work, items: Sequence[Any]) -> list[Any]:
        """Returns the result of each item, a text or a pair, computed with other requests.

        Raises a RequestError if the queue is full, or if the work fails or takes too long, and
        ClientDisconnect if the client has left, which stops the work.
        """
        if not items:
            return []
        job = Job(work, items, self.name, self.config.max_seconds)
        self.service.schedulers[task].put(job)
        answer = asyncio.wrap_future(job.future)
        # An error that comes when the client has left is nobody's.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

        async def leave() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass

        left = asyncio.ensure_future(leave())
        try:
            either: set[asyncio.Future[Any]] = {answer, left}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ClientDisconnect
            return answer.result()
        finally:
            left.cancel()
            answer.cancel()


async def _caller_of(service: Offered, request: Request) -> Caller:
    return Caller(service, request)


Client = Annotated[Caller, Depends(_caller_of)]


def _search(predictor: Any, request: Any, texts: Any, numbers: Any, check: Any) -> Any:
    return predictor.generate(texts, replace(request, numbers=numbers, on_step=check))


def plain(value: Any) -> Any:
    """Returns ``value`` for JSON: floats rounded, and null for what is not a finite number."""
    match value:
        case float():
            return round(value, _DIGITS) if math.isfinite(value) else None
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value
