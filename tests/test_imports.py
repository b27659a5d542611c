"""The rooms' walls, read off the source: who may import whom, and what no file may use."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN_ROOMS = {
    "core": {"data", "tasks", "cli", "tests", "benchmarks"},
    "data": {"tasks", "cli", "tests", "benchmarks"},
    "tasks": {"cli", "tests", "benchmarks"},
}
OUTSIDE_THE_PRODUCT = {"tests", "benchmarks", "build", "dist"}

TRANSFORMER_OF_TORCH = re.compile(
    r"torch\.nn\.(.+\.)?(Transformer\w*|MultiheadAttention|multi_head_attention_forward)"
)
RUNS_CODE = re.compile(
    r"((_|c)?[pP]ickle|dill|cloudpickle|joblib|shelve|marshal)(\..+)?"
    r"|torch\.load|torch\.serialization\.load|(builtins\.)?(eval|exec)"
)


def product_files() -> list[Path]:
    """Every Python file of the product: not tests, benchmarks, builds or virtual environments."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in OUTSIDE_THE_PRODUCT
            and not (Path(folder) / name / "pyvenv.cfg").exists()
        ]
        found += [Path(folder) / name for name in files if name.endswith(".py")]
    return sorted(found)


def room_of(path: Path) -> str:
    """The first folder below the root, or the file's own name for a file that stands in no room."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str, str]]:
    """Line, local name and full dotted name of everything imported, at any depth.

    ``from a import b as c`` gives ("c", "a.b"); ``import a.b`` gives ("a", "a") and ("a.b", "a.b").
    ``package`` is the dotted name of the file's own folder, which relative imports start from.
    """
    for node in ast.walk(tree):
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


def parse(path: Path) -> tuple[ast.AST, str]:
    package = ".".join(path.relative_to(ROOT).parts[:-1])
    return ast.parse(path.read_text(encoding="utf-8"), str(path)), package


def offences(path: Path, pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for line, name in uses(*parse(path))
        if pattern.fullmatch(name)
    ]


# The walls


def test_the_walk_finds_the_product_and_nothing_else() -> None:
    names = {str(path.relative_to(ROOT)) for path in product_files()}
    assert {"core/model/attention.py", "data/vocabulary.py"} <= names
    assert not any(name.startswith(("tests", "benchmarks", ".")) for name in names)


@pytest.mark.parametrize("room", FORBIDDEN_ROOMS)
def test_imports_go_one_way(room: str) -> None:
    """cli -> tasks -> data -> core, and tasks -> core."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: imports {name}"
        for path in product_files()
        if room_of(path) == room
        for line, _, name in imports(*parse(path))
        if name.partition(".")[0] in FORBIDDEN_ROOMS[room]
    ]
    assert found == []


def test_torchtext_stays_behind_data() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: imports {name}"
        for path in product_files()
        if room_of(path) != "data"
        for line, _, name in imports(*parse(path))
        if name.partition(".")[0] == "torchtext"
    ]
    assert found == []


def test_the_transformer_is_written_by_hand() -> None:
    found = [line for path in product_files() for line in offences(path, TRANSFORMER_OF_TORCH)]
    assert found == []


def test_nothing_that_is_loaded_can_run_code() -> None:
    found = [line for path in product_files() for line in offences(path, RUNS_CODE)]
    assert found == []


def test_the_door_opens_without_torch() -> None:
    """``--help`` must answer at once: nothing heavy is imported before it is needed."""
    assert (ROOT / "cli.py").is_file()
    code = "import sys, cli; print(*sorted({'torch', 'numpy', 'torchtext'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


# The walls hold: each offence below is found


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nx = torch.nn.Transformer(8)",
        "from torch import nn\nclass A(nn.TransformerEncoderLayer): pass",
        "import torch.nn as n\nx = n.MultiheadAttention(8, 2)",
        "from torch.nn import TransformerDecoder",
        "from torch.nn import MultiheadAttention as Mine",
        "from torch.nn.modules.transformer import TransformerEncoder",
        "import torch.nn.modules\nx = torch.nn.modules.activation.MultiheadAttention",
        "import torch.nn.functional as F\nF.multi_head_attention_forward()",
        "def late():\n    from torch.nn import Transformer",
    ],
)
def test_every_way_to_torchs_transformer_is_seen(source: str) -> None:
    assert any(TRANSFORMER_OF_TORCH.fullmatch(name) for _, name in uses(ast.parse(source), "core"))


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import _pickle as p",
        "from pickle import loads",
        "import joblib.memory",
        "__import__('pickle')",
        "import importlib\nimportlib.import_module('dill')",
        "import torch\nx = torch.load('a')",
        "from torch import load as safe",
        "import torch as t\nread = t.load",
        "eval('1')",
        "run = exec",
        "import builtins\nbuiltins.exec('1')",
    ],
)
def test_every_way_to_run_loaded_code_is_seen(source: str) -> None:
    assert any(RUNS_CODE.fullmatch(name) for _, name in uses(ast.parse(source), "core"))


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()",
        "from core.config import TransformerConfig\nTransformerConfig()",
        "self.load('a')",
        "import json\njson.load(file)",
        "from safetensors.torch import load_file\nload_file('a')",
        "from core.model.transformer import MyTransformer as Transformer\nTransformer()",
        '"""Equal to torch.nn.MultiheadAttention; no pickle, no eval."""',
    ],
)
def test_the_innocent_pass(source: str) -> None:
    for _, name in uses(ast.parse(source), "core"):
        assert not TRANSFORMER_OF_TORCH.fullmatch(name)
        assert not RUNS_CODE.fullmatch(name)


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("import data.vocabulary as v", "core", "data.vocabulary"),
        ("from .masks import combine_masks", "core", "core.model.masks.combine_masks"),
        ("from . import masks", "core", "core.model.masks"),
        ("from ..translation import model", "tasks.couplet", "tasks.translation.model"),
        ("from ... import data", "core.inner", "data"),
        ("from .. import data", "core", "data"),
        ("if True:\n    def f():\n        import tasks", "core", "tasks"),
    ],
)
def test_imports_are_resolved(source: str, package: str, expected: str) -> None:
    assert expected in {name for _, _, name in imports(ast.parse(source), package)}
