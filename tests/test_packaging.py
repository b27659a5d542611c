"""What is installed: one package, complete, that lives beside any files of a user's own."""

import configparser
import importlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.source_walk import ROOT

SOURCES = ("transformer_suite", "core", "data", "tasks")
PACKED = (*SOURCES, "setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def settings() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built without a network from a copy of the sources."""
    for tool in ("build", "setuptools"):
        if find_spec(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in PACKED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source)
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source)
    done = subprocess.run([sys.executable, *build], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed wheel and nothing else."""
    if find_spec("pip") is None:
        pytest.skip("pip is not installed")
    target = tmp_path_factory.mktemp("installed")
    install = ("-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", target)
    subprocess.run([sys.executable, *install, wheel], check=True, capture_output=True, timeout=300)
    return target


@pytest.fixture
def own_files(tmp_path: Path) -> Path:
    """A user's folder with modules and packages that have the names of ours."""
    for name in ("tasks.py", "data.py", "cli.py"):
        (tmp_path / name).write_text("MINE = True\n")
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("MINE = True\n")
    return tmp_path


def run_installed(
    installed: Path, folder: Path, *command: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_every_folder_with_modules_is_a_package() -> None:
    for source in SOURCES:
        for path in (ROOT / source).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path


def test_the_console_command_exists(settings: configparser.ConfigParser) -> None:
    _, _, target = settings["options.entry_points"]["console_scripts"].partition("=")
    module, _, function = target.strip().partition(":")
    assert module.startswith(f"{SOURCES[0]}.")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_wheel_has_one_package_with_all_files(wheel: Path) -> None:
    """``core``, ``data``, ``tasks`` and ``cli`` were installed beside everyone's own modules."""
    names = set(ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {SOURCES[0]}
    studies = set((ROOT / "tasks").rglob("README.md"))
    for source in SOURCES:
        for path in set((ROOT / source).rglob("*")) - studies:
            if path.is_file() and "__pycache__" not in path.parts:
                name = str(path.relative_to(ROOT))
                assert (name if source == SOURCES[0] else f"{SOURCES[0]}/{name}") in names


def test_the_installed_package_works_beside_a_users_own_files(
    installed: Path, own_files: Path
) -> None:
    """A user's ``tasks.py`` made ``from tasks.translation...`` fail, and ours replaced theirs."""
    program = own_files / "program.py"
    program.write_text(
        "import core, data, tasks, cli\n"
        "assert core.MINE and data.MINE and tasks.MINE and cli.MINE\n"
        "import transformer_suite\n"
        "from transformer_suite import Classifier\n"
        "print(transformer_suite.__file__)\n"
        "for name in transformer_suite.__all__:\n"
        "    value = getattr(transformer_suite, name)\n"
        "    assert value.__module__.startswith('transformer_suite.'), name\n"
        "print(*Classifier.load().classify(['Oil prices rise as OPEC cuts production']))\n"
    )
    done = run_installed(installed, own_files, program)
    assert done.returncode == 0, done.stderr
    file, label = done.stdout.splitlines()
    assert Path(file).is_relative_to(installed)
    assert label == "Business"


def test_the_installed_command_works_beside_a_users_own_files(
    installed: Path, own_files: Path
) -> None:
    script = installed / "bin" / "transformer-suite"
    done = run_installed(installed, own_files, script, "couplet", "晚风摇树树还挺")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "晨露滴泉泉不寒\n"
