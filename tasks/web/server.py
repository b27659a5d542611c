"""The web application, in Flask.

GET  /              a page on which to try the three tasks
POST /api/TASK      {"texts": [...]} -> {"results": [...]} with one object per text, like those of
                    --json on the command line; {"error": "..."} and 400 for anything else
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from flask import Flask, Response, request, send_file
from werkzeug.exceptions import HTTPException

from transformer_suite.core.errors import TextError, UserError
from transformer_suite.tasks.registry import TASKS, load_predictor

PAGE = Path(__file__).with_name("page.html")
MOST_TEXTS = 100
MOST_BYTES = 100_000

Predict = Callable[[Sequence[str]], Sequence[Any]]


def create_app(load: Callable[[str], Predict]) -> Flask:
    """Returns the application.

    Args:
        load: returns the predictor of a task; called when the task is first requested.
    """
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MOST_BYTES
    # One request computes at a time: several would share the same processor.
    busy = Lock()
    loaded = cache(load)

    @app.get("/")
    def page() -> Response:
        return send_file(PAGE)

    @app.post("/api/<task>")
    def answer(task: str) -> tuple[dict[str, Any], int]:
        if task not in TASKS:
            return {"error": f"no task {task!r}; there are {', '.join(TASKS)}"}, 404
        try:
            body = request.get_json()
        except RecursionError:
            return {"error": "not usable JSON: nested too deeply"}, 400
        texts = body.get("texts") if isinstance(body, dict) else None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return {"error": 'expected {"texts": ["...", ...]}'}, 400
        if unread := sorted(body.keys() - {"texts"}):
            return {"error": f"unknown option {unread[0]!r}; a request has texts only"}, 400
        if len(texts) > MOST_TEXTS:
            return {"error": f"{len(texts)} texts; at most {MOST_TEXTS} at a time"}, 400
        with busy:
            results = loaded(task)(texts)
        pairs = zip(texts, results, strict=True)
        return {"results": [{"input": text, **result.record()} for text, result in pairs]}, 200

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> tuple[dict[str, Any], int]:
        return {"error": error.description}, error.code or 500

    @app.errorhandler(UserError)
    def fail(error: UserError) -> tuple[dict[str, Any], int]:
        return {"error": str(error)}, 400 if isinstance(error, TextError) else 500

    return app


def serve(models: Mapping[str, Path | None], *, host: str, port: int, device: str) -> None:
    """Answers requests until it is interrupted.

    Args:
        models: the checkpoint folder of each task; None for the shipped model.

    Raises:
        UserError: the address cannot be used.
    """
    import waitress

    app = create_app(lambda task: load_predictor(task, models[task], device=device))
    try:
        server = waitress.create_server(app, host=host, port=port, threads=4)
    except (OSError, ValueError) as error:  # ValueError: a host that nobody has
        raise UserError(f"cannot serve at {host}:{port}: {_reason(error)}") from error
    server.run()


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error).rstrip(".")
