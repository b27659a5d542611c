"""The OpenAPI document as a page that works offline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any


def as_html(document: Mapping[str, Any]) -> str:
    """Returns an HTML page with every route of an OpenAPI document."""
    info = document["info"]
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(info['title'])}: interface</title>",
            '<link rel="stylesheet" href="/static/style.css"></head><body><main class="docs">',
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
            f"<p>{escape(info['description'])}</p>",
            '<p><a href="/v1/openapi.json">OpenAPI document</a></p>',
            *_routes(document),
            "</main></body></html>",
        ]
    )


def _routes(document: Mapping[str, Any]) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('summary', ''))}</p>"
            yield from _body(document, operation)
            yield "<ul>"
            for status, response in operation["responses"].items():
                yield f"<li><code>{status}</code> {escape(response['description'])}</li>"
            yield "</ul></section>"


def _body(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[str]:
    content = operation.get("requestBody", {}).get("content", {})
    for media in list(content.values())[:1]:
        schema = _resolve(document, media["schema"])
        yield "<table><tr><th>field</th><th>value</th><th></th></tr>"
        for name, field in schema.get("properties", {}).items():
            mark = " (required)" if name in schema.get("required", ()) else ""
            yield (
                f"<tr><td><code>{escape(name)}</code>{mark}</td><td>{escape(_type(field))}</td>"
                f"<td>{escape(field.get('description', ''))}</td></tr>"
            )
        yield "</table>"


def _resolve(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    resolved: Mapping[str, Any] = document["components"]["schemas"][name]
    return resolved


def _type(field: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        kinds = [kind for kind in field["anyOf"] if kind.get("type") != "null"]
        return " or ".join(map(_type, kinds))
    if "enum" in field:
        return " or ".join(map(repr, field["enum"]))
    words = str(field.get("type", "any"))
    if words == "array":
        words = f"array of {_type(field.get('items', {}))}"
    bounds = {
        "minimum": "from",
        "exclusiveMinimum": "above",
        "maximum": "to",
        "maxLength": "up to length",
    }
    return " ".join(
        [words, *(f"{word} {field[key]:.10g}" for key, word in bounds.items() if key in field)]
    )
