"""The OpenAPI document as a page that works offline; FastAPI's own pages load other sites."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_BOUNDS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "maxLength": "up to length",
}


def as_html(document: Mapping[str, Any]) -> str:
    """Returns an HTML page with every route of an OpenAPI document."""
    return "\n".join(_lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
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
