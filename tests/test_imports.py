"""The walls between the packages: who may import whom, and what no file may use."""

import ast
import subprocess
import sys

import pytest

from tests.source_walk import (
    ROOT,
    RUNS_CODE,
    TRANSFORMER_OF_TORCH,
    circle,
    flags,
    imports_at_load,
    imports_of_ours,
    is_inside,
    module_of,
    modules,
    offenses,
    package_of,
    parse,
    product_files,
)

GROUND = "core"
"""The modules directly in ``core/``: errors, config, special_ids, device..."""
MAY_IMPORT = {
    "core": set(),
    "core.model": {GROUND},
    "core.decoding": {GROUND},
    "core.storage": {GROUND},
    "core.distributed": {GROUND},
    "core.inference": {GROUND, "core.model", "core.decoding"},
    "core.training": {GROUND, "core.model", "core.decoding", "core.storage", "core.distributed"},
}
"""What each package of core may import, besides itself."""
FORBIDDEN = {
    "core": {"data", "tasks", "cli"},
    "data": {"tasks", "cli"},
    "tasks": {"cli"},
    "transformer_suite": {"cli"},
    "examples": {"cli", "tasks.commands"},
}
"""What no file below a folder may import: imports go from the command line down to core."""
APPLICATIONS = ("translation", "classification", "couplet")


def package_in_core(name: str) -> str:
    """The package of core that a dotted name is in; ``core`` stands for the ground floor."""
    return next((part for part in MAY_IMPORT if part != GROUND and is_inside(name, part)), GROUND)


def test_the_walk_finds_the_product_and_nothing_else() -> None:
    names = {str(path.relative_to(ROOT)) for path in product_files()}
    assert {"core/model/attention.py", "data/vocabulary.py"} <= names
    assert not any(name.startswith(("tests", "benchmarks", ".")) for name in names)


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_go_one_way(folder: str) -> None:
    """cli -> tasks.commands -> tasks -> data -> core."""
    not_for_the_product = {"tests", "benchmarks"}
    wrong = [
        place
        for path in product_files()
        if is_inside(module_of(path), folder)
        for place, name in imports_of_ours(path)
        if any(is_inside(name, other) for other in FORBIDDEN[folder] | not_for_the_product)
    ]
    assert wrong == []


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_the_packages_of_core_import_one_way(package: str) -> None:
    """Ground floor <- model, decoding <- inference, training. Decoding knows no model."""
    wrong = [
        place
        for path in product_files()
        if is_inside(module_of(path), "core") and package_in_core(module_of(path)) == package
        for place, name in imports_of_ours(path)
        if is_inside(name, "core") and package_in_core(name) not in MAY_IMPORT[package] | {package}
    ]
    assert wrong == []


def test_every_package_of_core_has_its_rule() -> None:
    folders = {package_of(path) for path in product_files()}
    assert {folder for folder in folders if is_inside(folder, "core")} == set(MAY_IMPORT)
    assert circle(MAY_IMPORT) == []


@pytest.mark.parametrize("application", APPLICATIONS)
def test_an_application_is_imported_by_none_of_the_others(application: str) -> None:
    """What two of them share stands in a package beside them, which imports neither."""
    others = {f"tasks.{name}" for name in (*APPLICATIONS, "seq2seq", "runs", "streaming")}
    others -= {f"tasks.{application}"}
    wrong = [
        place
        for path in product_files()
        if any(is_inside(module_of(path), other) for other in others)
        for place, name in imports_of_ours(path)
        if is_inside(name, f"tasks.{application}")
    ]
    assert wrong == []


def test_only_the_command_line_imports_the_commands() -> None:
    wrong = [
        place
        for path in product_files()
        if module_of(path) not in ("cli", "transformer_suite.__main__")
        and not is_inside(module_of(path), "tasks.commands")
        for place, name in imports_of_ours(path)
        if is_inside(name, "tasks.commands")
    ]
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Each module can be imported first: what is imported while a module loads makes no circle."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for path in product_files():
        if package_of(path).startswith("examples"):
            continue
        names = set(imports_at_load(*parse(path)))
        targets = {name if name in known else name.rpartition(".")[0] for name in names}
        graph[module_of(path)] = (targets & known) - {module_of(path), "transformer_suite"}
    assert len(graph) > 50
    assert sum(map(len, graph.values())) > 200
    assert circle(graph) == []


@pytest.mark.parametrize(
    ("library", "homes"), [("torchtext", ("data",)), ("click", ("cli", "tasks.commands"))]
)
def test_a_library_stays_in_its_place(library: str, homes: tuple[str, ...]) -> None:
    wrong = [
        place
        for path in product_files()
        if not any(is_inside(module_of(path), home) for home in homes)
        for place, name in imports_of_ours(path)
        if is_inside(name, library)
    ]
    assert wrong == []


def test_packages_hold_a_docstring_alone() -> None:
    """Code in an ``__init__`` runs for every module below it, ``--help`` included."""
    wrong = []
    for path in product_files():
        if path.name == "__init__.py" and path.parent.name != "transformer_suite":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if len(tree.body) != 1 or ast.get_docstring(tree) is None:
                wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []


@pytest.mark.parametrize("folder", ["core", "data"])
def test_no_message_names_a_flag(folder: str) -> None:
    """A library does not know the command line: it names the argument or the setting."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {flag}"
        for path in product_files()
        if is_inside(module_of(path), folder)
        for line, flag in flags(parse(path)[0])
    ]
    assert wrong == []


def test_the_transformer_is_written_by_hand() -> None:
    assert [line for path in product_files() for line in offenses(path, TRANSFORMER_OF_TORCH)] == []


def test_nothing_that_is_loaded_can_run_code() -> None:
    assert [line for path in product_files() for line in offenses(path, RUNS_CODE)] == []


@pytest.mark.parametrize(
    "arguments", [["--help"], *(["train", name, "--show-config"] for name in APPLICATIONS)]
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
