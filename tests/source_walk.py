"""Reads the repository's source: its files, and what they import and use."""

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE_THE_PRODUCT = {"tests", "benchmarks", "docs", "build", "dist"}

TRANSFORMER_OF_TORCH = re.compile(
    r"torch\.nn\.(.+\.)?(Transformer\w*|MultiheadAttention|multi_head_attention_forward)"
)
RUNS_CODE = re.compile(
    r"((_|c)?[pP]ickle|dill|cloudpickle|joblib|shelve|marshal)(\..+)?"
    r"|torch\.load|torch\.serialization\.load|(builtins\.)?(eval|exec)"
)
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def python_files(*left_out: str) -> list[Path]:
    """Every Python file of the repository that is not hidden or in a virtual environment."""
    paths = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in left_out
            and not (Path(folder) / name / "pyvenv.cfg").exists()
        ]
        paths += [Path(folder) / name for name in files if name.endswith(".py")]
    return sorted(paths)


@cache
def product_files() -> list[Path]:
    """Every Python file of the product: not tests, benchmarks, the guide and builds."""
    return python_files(*OUTSIDE_THE_PRODUCT)


def module_of(path: Path) -> str:
    """The dotted name of a file, below the repository: ``core.model.masks``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: Path) -> str:
    """The dotted name of a file's folder, below the repository: ``core.model``."""
    return ".".join(path.relative_to(ROOT).parts[:-1])


def is_inside(name: str, package: str) -> bool:
    """Whether a dotted name is a package or something below it."""
    return f"{name}.".startswith(f"{package}.")


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str, str]]:
    """Line, local name and full dotted name of everything imported, at any depth.

    ``from a import b as c`` gives ("c", "a.b"); ``import a.b`` gives ("a", "a") and ("a.b", "a.b").
    ``package`` is the dotted name of the file's own folder, which relative imports start from.
    """
    for node in ast.walk(tree):
        yield from _imports_of(node, package)


def _imports_of(node: ast.AST, package: str) -> Iterator[tuple[int, str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname is None:
                top = alias.name.partition(".")[0]
                yield node.lineno, top, top
            yield node.lineno, alias.asname or alias.name, alias.name
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level > 0:
            parts = package.split(".") if package else []
            base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
        for alias in node.names:
            full = f"{base}.{alias.name}".removeprefix(".")
            yield node.lineno, alias.asname or alias.name, full
    elif isinstance(node, ast.Call) and _dotted(node.func) in (
        "__import__",
        "importlib.import_module",
        "import_module",
    ):
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield node.lineno, first.value, first.value


def imports_at_load(tree: ast.AST, package: str) -> Iterator[str]:
    """Full names of what a module imports when it is loaded.

    Imports in functions and below ``if TYPE_CHECKING`` are left out.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from (full for _, _, full in _imports_of(node, package))
            yield from imports_at_load(node, package)


def uses(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything imported, and of every name or attribute in use.

    Local names are traced to what they were imported as: after ``import torch.nn as n``,
    ``n.Linear`` is "torch.nn.Linear".
    """
    origin = {}
    for line, local, full in imports(tree, package):
        origin[local] = full
        yield line, full
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            dotted = _dotted(node)
            if dotted is not None:
                first, dot, rest = dotted.partition(".")
                yield node.lineno, origin.get(first, first) + dot + rest


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


@cache
def parse(path: Path) -> tuple[ast.AST, str]:
    """The syntax tree of a file, and the dotted name of its folder."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path)), package_of(path)


def offenses(path: Path, pattern: re.Pattern[str]) -> list[str]:
    """Where a file uses a name that matches."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for line, name in uses(*parse(path))
        if pattern.fullmatch(name)
    ]


def imports_of_ours(path: Path) -> Iterator[tuple[str, str]]:
    """Where a file imports what of the repository: place and dotted name."""
    for line, _, name in imports(*parse(path)):
        yield f"{path.relative_to(ROOT)}:{line}: imports {name}", name


def modules() -> set[str]:
    """The dotted names of all modules and packages of the product."""
    return {module_of(path) for path in product_files()}


def flags(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and name of each command-line flag in a string, f-strings and docstrings included."""
    return [
        (node.lineno, flag)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for flag in FLAG.findall(node.value)
    ]


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The nodes of a circle in a directed graph, or nothing where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
