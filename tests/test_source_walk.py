"""The walls hold: every way around them is seen."""

import ast

import pytest

from tests.source_walk import (
    RUNS_CODE,
    TRANSFORMER_OF_TORCH,
    circle,
    flags,
    imports,
    imports_at_load,
    uses,
)


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
        ("from .masks import combine_masks", "core.model", "core.model.masks.combine_masks"),
        ("from . import masks", "core.model", "core.model.masks"),
        ("from ..translation import model", "tasks.couplet", "tasks.translation.model"),
        ("from ... import data", "core.inner", "data"),
        ("from .. import data", "core", "data"),
        ("if True:\n    def f():\n        import tasks", "core", "tasks"),
    ],
)
def test_imports_are_resolved(source: str, package: str, expected: str) -> None:
    assert expected in {name for _, _, name in imports(ast.parse(source), package)}


def test_imports_at_load_leave_out_functions_and_types() -> None:
    source = """
import a
if TYPE_CHECKING:
    from b import c
try:
    from . import d
except ImportError:
    pass
class E:
    import f
    def late(self):
        import g
"""
    assert set(imports_at_load(ast.parse(source), "core")) == {"a", "core.d", "f"}


def test_flags_are_seen_in_every_kind_of_string() -> None:
    source = 'def f(x):\n    """Like --one."""\n    raise ValueError(f"{x}: use --two-three")'
    assert [flag for _, flag in flags(ast.parse(source))] == ["--one", "--two-three"]
    assert flags(ast.parse("x = 'a -- b, ---- and a--b'  # --four")) == []


def test_a_circle_is_found() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
