"""What is installed: one package, complete, that lives beside any files of a user's own."""

import configparser
import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

import transformer_suite
from tests.tiny_corpora import write_classification

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("transformer_suite", "core", "data", "tasks")
PACKED = (*SOURCES, "setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE")
OWN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
PROGRAM = """
import core, data, tasks, cli
assert core.MINE and data.MINE and tasks.MINE and cli.MINE

import transformer_suite
from transformer_suite import Classifier, CoupletWriter, Translator
from transformer_suite.__main__ import main

print(transformer_suite.__file__)
for name in transformer_suite.__all__:
    module = getattr(transformer_suite, name).__module__
    assert module.startswith("transformer_suite."), name
print(Translator.load().translate("Ein Hund rennt."))
print(*Classifier.load().classify(["Oil prices rise as OPEC cuts production"]))
print(CoupletWriter.load().answer("晚风摇树树还挺"), flush=True)
main(["train", "classification", "--preset=tiny", "--data=news", "--out=run", "--device=cpu",
      "--set", "train.epochs=1"])
"""
"""What a user writes beside modules that have the names of ours."""


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
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel. What it depends on comes from this one."""
    if find_spec("pip") is None:
        pytest.skip("pip is not installed")
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    # This adds a folder to the path. The .pth files there, of editable installs, are not read.
    (packages(folder) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ("-m", "pip", "--python", folder / "bin" / "python", "install", "--no-deps")
    done = subprocess.run(
        [sys.executable, *install, "--no-index", "--quiet", wheel],
        env=OWN,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


def packages(environment: Path) -> Path:
    """The folder of the installed packages."""
    return next(environment.glob("lib/*/site-packages"))


@pytest.fixture
def own_files(tmp_path: Path) -> Path:
    """A user's folder with modules and packages that have the names of ours, and a corpus."""
    for name in ("tasks.py", "data.py", "cli.py"):
        (tmp_path / name).write_text("MINE = True\n")
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("MINE = True\n")
    write_classification(tmp_path / "news")
    return tmp_path


def test_every_folder_with_modules_is_a_package() -> None:
    for source in SOURCES:
        for path in (ROOT / source).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path


def test_the_version_is_the_same_everywhere(settings: configparser.ConfigParser) -> None:
    version = settings["metadata"]["version"]
    assert transformer_suite.__version__ == version
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in citation
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


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
    cards = [path.parent.name for path in (ROOT / "data" / "pretrained").glob("*/README.md")]
    terms = [name for name in names if re.search(r"dist-info/.*pretrained/\w+.*/README\.md", name)]
    assert len(terms) == len(cards) > 0
    studies = set((ROOT / "tasks").rglob("README.md"))
    for source in SOURCES:
        for path in set((ROOT / source).rglob("*")) - studies:
            if path.is_file() and "__pycache__" not in path.parts:
                name = str(path.relative_to(ROOT))
                assert (name if source == SOURCES[0] else f"{SOURCES[0]}/{name}") in names


def test_an_installation_has_one_name_on_the_top_level(environment: Path) -> None:
    """``importlib.metadata`` and pip read ``top_level.txt``."""
    site = packages(environment)
    starts = ("transformer", *SOURCES)
    names = {path.name for path in site.iterdir() if path.name.startswith(starts)}
    assert {name for name in names if not name.endswith(".dist-info")} == {"transformer_suite"}
    (info,) = site.glob("transformer_suite-*.dist-info")
    assert (info / "top_level.txt").read_text().split() == ["transformer_suite"]


def test_the_installation_works_beside_a_users_own_files(
    environment: Path, own_files: Path
) -> None:
    """A user's ``tasks.py`` made ``from tasks.translation...`` fail, and ours replaced theirs."""
    program = own_files / "program.py"
    program.write_text(PROGRAM)
    done = run(environment, own_files, "python", program)
    assert done.returncode == 0, done.stderr
    file, *answers = done.stdout.splitlines()
    assert Path(file).is_relative_to(environment)
    assert answers[:3] == ["A dog runs.", "Business", "细雨润花花正开"]
    assert (own_files / "run" / "model.safetensors").exists()


def test_the_installed_command_serves_beside_a_users_own_files(
    environment: Path, own_files: Path
) -> None:
    pytest.importorskip("fastapi", reason="the extra `web` is not installed")
    command = environment / "bin" / "transformer-suite"
    options = ("serve", "--port=0", "--device=cpu", "--only=classification")
    process = subprocess.Popen(
        [command, *options], cwd=own_files, env=OWN, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.match(r"(http://127\.0\.0\.1:\d+/) ", line)
        assert found, line + process.communicate(timeout=60)[1]
        with urllib.request.urlopen(f"{found[1]}v1/models", timeout=60) as answer:
            assert answer.status == 200
    finally:
        process.kill()
        process.communicate()


def run(environment: Path, folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """Runs a program of the environment in a folder of a user."""
    return subprocess.run(
        [environment / "bin" / str(command[0]), *map(str, command[1:])],
        cwd=folder,
        env=OWN,
        capture_output=True,
        text=True,
        timeout=300,
    )
