"""Source code in the guide: single functions, and a page for each file that the guide names."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

_LINE = {"en": ", line {}", "zh": "，第 {} 行"}

LANGUAGES = {".py": "python", ".md": "markdown", ".toml": "toml", ".cfg": "ini"}

_DIRECTIVE = re.compile(r"^::: source (\S+) (\S+)(?: /(.+?)/ /(.+?)/)?$", re.MULTILINE)
_LINK = re.compile(r"\]\(((?:\.\./)+[^)\s#]+)\)")

Definition = ast.FunctionDef | ast.ClassDef


class Excerpt(NamedTuple):
    """A part of a file: its first line, counted from 1, and its text."""

    path: str
    line: int
    text: str


def excerpt(path: str, name: str, first: str | None = None, last: str | None = None) -> Excerpt:
    """Returns the definition of ``name`` in the file, without its docstring.

    Args:
        path: relative to the repository.
        name: a function or class, or ``Class.method``.
        first, last: only from the line with the text ``first`` to the line with ``last``; each
            occurs in exactly one line of the definition.

    Raises:
        ValueError: there is no such definition, or no such line.
    """
    source = (ROOT / path).read_text(encoding="utf-8")
    node = _definition(ast.parse(source), path, name)
    lines = source.splitlines()
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    numbers = list(range(start, (node.end_lineno or start) + 1))
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        end = docstring.end_lineno or docstring.lineno
        hidden = range(docstring.lineno, end + (1 if lines[end].strip() else 2))
        numbers = [n for n in numbers if n not in hidden]
    if first is not None and last is not None:
        begin, end = (_line_with(text, numbers, lines, f"{path} {name}") for text in (first, last))
        numbers = [n for n in numbers if begin <= n <= end]
    text = textwrap.dedent("\n".join(lines[n - 1] for n in numbers))
    return Excerpt(path, numbers[0], text)


def _definition(tree: ast.Module, path: str, name: str) -> Definition:
    node: ast.AST = tree
    for part in name.split("."):
        found = [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, Definition) and child.name == part
        ]
        if len(found) != 1:
            raise ValueError(f"{path} has {len(found)} definitions of {name}")
        node = found[0]
    assert isinstance(node, Definition)
    return node


def _line_with(text: str, numbers: list[int], lines: list[str], where: str) -> int:
    found = [n for n in numbers if text in lines[n - 1]]
    if len(found) != 1:
        raise ValueError(f"{where} has {len(found)} lines with {text!r}")
    return found[0]


def with_sources(markdown: str, page: str) -> str:
    """Returns a page with its ``::: source`` directives replaced by code, and links to files by
    links to their pages.

    Args:
        page: the path of the page below ``docs/``.
    """
    up = "../" * (len(PurePosixPath(page).parts) - 1)

    def code(match: re.Match[str]) -> str:
        found = excerpt(*match.groups())
        link = f"{up}{page_of(found.path)}#__codelineno-0-{found.line}"
        line = _LINE[page.split("/")[0]].format(found.line)
        return f"```python\n{found.text}\n```\n\n[`{found.path}`{line}]({link}){{ .source }}"

    def link(match: re.Match[str]) -> str:
        path = _below_root(page, match[1])
        return match[0] if path is None else f"]({up}{page_of(path)})"

    return _LINK.sub(link, _DIRECTIVE.sub(code, markdown))


def named_files(markdown: str, page: str) -> set[str]:
    """Returns the files of the repository, outside ``docs/``, that a page shows or links to."""
    shown = {match[1] for match in _DIRECTIVE.finditer(markdown)}
    linked = {_below_root(page, match[1]) for match in _LINK.finditer(markdown)}
    return shown | {path for path in linked if path is not None}


def station_files() -> set[str]:
    """Returns the files that the recorded predictions in ``docs/inside`` name and link to."""
    view = (ROOT / "tasks" / "web" / "static" / "inside.js").read_text(encoding="utf-8")
    paths = re.findall(r"""["`]((?:core|data|tasks)/\S+\.py)["`]""", view)
    return {path.replace("${this.trace.task}", "translation") for path in paths}


def _below_root(page: str, link: str) -> str | None:
    """Returns the path in the repository that a page's link means; None for a file of the guide."""
    path = (ROOT / "docs" / page).parent.joinpath(link).resolve()
    if path.is_relative_to(ROOT / "docs") or not path.is_file():
        return None
    return path.relative_to(ROOT).as_posix()


def page_of(path: str) -> str:
    """Returns the page, below ``docs/``, that shows the file ``path``."""
    return f"source/{path}.md"


def source_page(path: str) -> str:
    """Returns the Markdown of the page that shows the file ``path``, with numbered lines."""
    text = (ROOT / path).read_text(encoding="utf-8").rstrip()
    language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return (
        f"---\nsearch:\n  exclude: true\nhide:\n  - navigation\n---\n# {path}\n\n"
        f'{fence}{language} linenums="1"\n{text}\n{fence}\n'
    )
