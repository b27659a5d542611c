"""The web application: routes, the page, and what every request passes."""

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from core.config import nearest
from core.errors import shown
from tasks.pictures import FONTS
from tasks.web import libretranslate, routes
from tasks.web.errors import RequestError
from tasks.web.gate import Gate
from tasks.web.service import Service
from transformer_suite import __version__

STATIC = Path(__file__).with_name("static")

pages = APIRouter(include_in_schema=False)

_DESCRIPTION = (
    "Translation, news classification and Chinese couplets. Requests and answers are JSON. The "
    "options of a search have the names of the command line."
)

_BOUNDS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "maxLength": "up to length",
}


def create_app(service: Service) -> FastAPI:
    """Returns the ASGI application of a service."""
    handlers: dict[int | type[Exception], Any] = {
        RequestValidationError: _refuse_body,
        HTTPException: _refuse_request,
    }
    api = FastAPI(
        title="Transformer Suite",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=handlers,
    )
    api.state.service = service
    for router in (pages, routes.router, routes.public, libretranslate.router):
        api.include_router(router)
    api.mount("/static/fonts", StaticFiles(directory=FONTS))
    api.mount("/static", StaticFiles(directory=STATIC))
    for path in api.openapi()["paths"].values():
        for operation in path.values():  # FastAPI's own answer, which _refuse_body replaces
            operation["responses"].pop("422", None)
    api.add_middleware(Gate, config=service.config, metrics=service.metrics)
    if service.config.cors_origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=service.config.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", "X-API-Key"),
        )
    return api


@pages.get("/v1/docs")
async def docs(request: Request) -> HTMLResponse:
    return HTMLResponse("\n".join(_as_html(request.app.openapi())))


@pages.get("/")
async def page() -> FileResponse:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


async def _refuse_request(request: Request, error: HTTPException) -> JSONResponse:
    is_deep = isinstance(error.__cause__, RecursionError)
    message = "the JSON is nested too deeply" if is_deep else str(error.detail)
    return RequestError(error.status_code, message, **(error.headers or {})).response()


async def _refuse_body(request: Request, error: RequestValidationError) -> JSONResponse:
    """Answers a body that does not fit its schema; the message names the first wrong field."""
    fault = error.errors()[0]
    place, kind = fault["loc"][1:], fault["type"]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    field = "".join(parts).removeprefix(".") or None
    message = f"{field}: {fault['msg']}"
    if kind == "json_invalid":
        message, field = f"the body is not valid JSON: {fault['ctx']['error']}", None
    elif kind == "extra_forbidden":
        fields = request.scope["route"].body_field.field_info.annotation.model_fields
        message = f"unknown option {shown(place[-1])}{nearest(str(place[-1]), fields)}"
    elif field is None:
        message = "the body must be a JSON object in UTF-8, with Content-Type: application/json"
    return RequestError(400, message, field=field).response()


def _as_html(document: Mapping[str, Any]) -> Iterator[str]:
    """Yields a page with every route of an OpenAPI document; FastAPI's pages load other sites."""
    title, description = (escape(document["info"][key]) for key in ("title", "description"))
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f'<title>{title}: interface</title><link rel="icon" href="data:,">'
    yield '<link rel="stylesheet" href="/static/style.css">'
    yield f'</head><body><main class="docs"><h1>{title} {escape(document["info"]["version"])}</h1>'
    yield f'<p>{description}</p><p><a href="/v1/openapi.json">OpenAPI document</a></p>'
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation['summary'])}</p>"
            for media in [*operation.get("requestBody", {}).get("content", {}).values()][:1]:
                name = media["schema"].get("$ref", "").rpartition("/")[2]
                schemas = document.get("components", {}).get("schemas", {})
                yield from _fields(schemas.get(name, media["schema"]))
            statuses = operation["responses"].items()
            notes = (f"<code>{status}</code> {escape(r['description'])}" for status, r in statuses)
            yield f"<ul>{''.join(f'<li>{note}</li>' for note in notes)}</ul></section>"
    yield "</main></body></html>"


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "<table><tr><th>field</th><th>value</th><th></th></tr>"
    for name, field in schema["properties"].items():
        mark = " (required)" if name in schema.get("required", ()) else ""
        yield f"<tr><td><code>{escape(name)}</code>{mark}</td><td>{escape(_type(field))}</td>"
        yield f"<td>{escape(field.get('description', ''))}</td></tr>"
    yield "</table>"


def _type(field: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_type(kind) for kind in field["anyOf"] if kind.get("type") != "null")
    if "enum" in field:
        return " or ".join(map(repr, field["enum"]))
    kind = field.get("type", "any")
    words = [f"array of {_type(field['items'])}" if kind == "array" else kind]
    words += (f"{word} {field[key]:.10g}" for key, word in _BOUNDS.items() if key in field)
    return " ".join(words)
