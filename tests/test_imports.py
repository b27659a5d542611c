"""The walls between the packages: who may import whom, and what no file may use."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("core", "data", "tasks", "transformer_suite")
PRODUCT = [ROOT / "cli.py", *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))]
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")

# For each contract in pyproject.toml: an import that it forbids, and the file that it is added to.
WRONG_IMPORTS = {
    "Tasks know data, data knows core": ("core/errors.py", "import data.vocabulary"),
    "Core has layers, and decoding knows no model": (
        "core/decoding/search.py",
        "import core.model.masks",
    ),
    "Applications are independent, also of what they share": (
        "tasks/couplet/tones.py",
        "import tasks.translation.language",
    ),
    "The public names are for users alone": (
        "data/vocabulary.py",
        "from transformer_suite import Translator",
    ),
    "Only commands know click": ("tasks/texts.py", "def late():\n    import click"),
    "Only data knows torchtext": ("core/device.py", "from torchtext import data"),
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("lint-imports", path=Path(sys.executable).parent) or "lint-imports"]
    return subprocess.run([*command, "--no-cache"], cwd=folder, capture_output=True, text=True)


def test_imports_go_one_way() -> None:
    """cli -> tasks.commands -> tasks -> data -> core; decoding depends on no model."""
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_import_breaks_each_contract(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path in PRODUCT:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    for name, line in WRONG_IMPORTS.values():
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    said = " ".join(lint_imports(tmp_path).stdout.split())
    assert "0 kept" in said, said
    assert f"{len(WRONG_IMPORTS)} broken" in said, said
    for contract in WRONG_IMPORTS:
        assert f"{contract} BROKEN" in said


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("from torch import nn\n\nnn.Transformer(8)", "TID251"),
        ("import torch.nn as n\n\nn.MultiheadAttention(8, 2)", "TID251"),
        ("from torch.nn.modules.transformer import TransformerEncoder", "TID251"),
        ("import torch.nn.functional as F\n\nF.multi_head_attention_forward()", "TID251"),
        ("def late():\n    from torch import load", "TID251"),
        ("import pickle", "TID251"),
        ("from .masks import combine_masks", "TID252"),
        ("eval('1')", "S307"),
        ("exec('1')", "S102"),
        ("from core.model.transformer import MyTransformer\n\nMyTransformer().eval()", None),
    ],
)
def test_ruff_refuses_what_is_not_ours_to_use(source: str, rule: str | None) -> None:
    """The Transformer is written by hand, and nothing that is loaded can run code."""
    options = ["--select", "TID,S102,S307", "--stdin-filename", "core/model/new.py", "-"]
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", *options]
    done = subprocess.run(command, input=source, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == (rule is not None), done.stderr
    assert rule is None or rule in done.stdout


def unresolved(path: Path, text: str) -> list[str]:
    """The imports from our packages in ``text`` that jedi, as an editor, cannot follow."""
    import jedi  # not above, where every worker would

    project = jedi.Project(ROOT, sys_path=[str(ROOT)], smart_sys_path=False)
    script = jedi.Script(text, path=path, project=project)
    return [
        f"{path.relative_to(ROOT)}:{alias.lineno}: {alias.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if str(getattr(node, "module", alias.name)).partition(".")[0] in PACKAGES
        and not any(
            str(definition.module_path).startswith(f"{ROOT}/")
            for definition in script.goto(
                alias.lineno, alias.col_offset + len(alias.name), follow_imports=True
            )
        )
    ]


def test_an_editor_follows_every_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jedi.settings.cache_directory", str(tmp_path))  # there may be no home
    assert [place for path in PRODUCT for place in unresolved(path, path.read_text("utf-8"))] == []
    lost = "from core.model.nothing import create_mask\nfrom data import nothing"
    assert len(unresolved(ROOT / "core/new.py", lost)) == 2


def test_packages_hold_a_docstring_alone() -> None:
    """Code in an ``__init__`` runs for every module below it, ``--help`` included."""
    packages = [path for path in PRODUCT if path.name == "__init__.py"]
    for path in packages:
        tree = ast.parse(path.read_text("utf-8"))
        is_docstring = len(tree.body) == 1 and ast.get_docstring(tree) is not None
        assert is_docstring or path.parent.name == "transformer_suite", path


def test_no_message_of_a_library_names_a_flag() -> None:
    """A library does not know the command line: it names the argument or the setting."""
    for path in PRODUCT:
        if path.is_relative_to(ROOT / "core") or path.is_relative_to(ROOT / "data"):
            assert FLAG.findall(path.read_text("utf-8")) == [], path


@pytest.mark.parametrize(
    "arguments",
    [["--help"], *(["train", t, "--show-config"] for t in ("translation", "classification"))],
)
def test_the_command_line_starts_without_torch(arguments: list[str]) -> None:
    """Help and configurations come at once: nothing heavy is imported before it is needed."""
    code = (
        "import sys, click.testing, cli; "
        f"done = click.testing.CliRunner().invoke(cli.main, {arguments}); "
        "print(done.exit_code, *sorted({'torch', 'numpy', 'torchtext'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0"
