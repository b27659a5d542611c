"""Everything that the READMEs and the manual show works as printed.

The Python code, the examples and the configurations of the manual are tested with the guide.
"""

import dataclasses
import functools
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

import cli
from core.training.config import TrainConfig
from tests.commands.command_line import run
from tests.readme_blocks import ROOT, Block, blocks, check_target
from tests.tiny_corpora import write_classification, write_couplet, write_translation
from tests.torchrun import TIMEOUT, run_ranks

READMES = ("README.md", "README.zh.md")
MANUAL = {
    readme: tuple(f"docs/{language}/manual/{page}.md" for page in ("using", "training"))
    for readme, language in zip(READMES, ("en", "zh"), strict=True)
}
"""The pages that continue a README."""
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "data/pretrained/*/*.md")
    for path in ROOT.glob(pattern)
)
BLOCKS = [block for readme in READMES for block in blocks(readme)]
SHELL = [block for block in BLOCKS if not block.language and not block.examples()]
COMMANDS = [block for block in SHELL if block.document == READMES[0]] + [
    block for page in MANUAL[READMES[0]] for block in blocks(page) if block.language == "sh"
]
"""What is executed. Tests of both languages compare the commands of the others with these."""
EXAMPLES = [(block, *example) for block in BLOCKS for example in block.examples()]

# Why a command of a README is not executed here.
NOT_HERE = {
    r"--nproc-per-node gpu|\bsrun\b|scontrol": "it needs GPUs or several machines",
    r"--nnodes [2-9]": "it needs several machines",
    r"git clone|pip install": "it needs a network",
    r"\bserve\b": "it serves until it is interrupted",
}
SMALL_RUN = ("--preset=tiny", "--set=train.epochs=1")
"""What is added to commands that train, so that they end in seconds."""
SMALL_VOCABULARY = "--set=data.vocab_size=400"
"""The same, for the tasks that learn subwords."""


@pytest.mark.parametrize(
    ("block", "command", "printed"), [e for e in EXAMPLES if e[0].document == READMES[0]], ids=str
)
def test_an_example_prints_what_it_shows(block: Block, command: str, printed: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "cli.py"
    done = run(*arguments)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.rstrip("\n") == printed


@pytest.mark.parametrize("readme", READMES)
def test_python_snippets_run_as_printed(readme: str, in_tmp: Path) -> None:
    """One snippet after the other, as in one session.

    ``plt`` was used in a snippet that never imported it.
    """
    pytest.importorskip("matplotlib").use("Agg")
    names: dict[str, object] = {}
    snippets = [block for block in blocks(readme) if block.language == "python"]
    assert snippets
    for block in snippets:
        # Empty lines before it let a traceback name the line of the README.
        source = "\n" * (block.line - 1) + block.text
        exec(compile(source, str(ROOT / readme), "exec"), names)


@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_shell_commands_run_as_printed(block: Block, workshop: Path) -> None:
    """In a folder with small corpora and a trained model, with a smaller model and fewer epochs."""
    done = 0
    for command in block.commands():
        if not any(re.search(pattern, command) for pattern in NOT_HERE):
            _execute(command, workshop)
            done += 1
    if not done:
        reasons = {why for how, why in NOT_HERE.items() if re.search(how, block.text)}
        pytest.skip("; ".join(sorted(reasons)))


def _execute(command: str, folder: Path) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        return check_target(words[1])
    if words[0].endswith("torchrun"):
        return _torchrun(words[1:])
    target = folder / words[-1] if words[-2:-1] == [">"] else None
    if target:
        words = words[:-2]
    if words[0] == "cli.py" and not {"|", ">", "<", "&&"} & set(words):
        done = run(*words[1:], *_added(words))
        assert done.exit_code == 0, f"{command}\n{done.output}"
        if target:
            target.write_bytes(done.stdout_bytes)
        return None
    if words[:2] == ["mkdir", "corpus"]:
        # The comment beside it tells the reader which files belong there.
        (folder / "corpus").rename(folder / "filled")
    _shell(command, folder)
    if (folder / "filled").exists():
        shutil.copytree(folder / "filled", folder / "corpus", dirs_exist_ok=True)
    return None


def _added(words: list[str]) -> tuple[str, ...]:
    """The options that make a training run small. A resumed run has its configuration."""
    if "train" not in words or "--resume" in words:
        return ()
    return SMALL_RUN if "couplet" in words else (*SMALL_RUN, SMALL_VOCABULARY)


def _torchrun(words: list[str]) -> None:
    """Trains with half of the processes, which show what all do, and of the threads: two would
    deadlock in a fork of a process that has computed with two before."""
    from torch.distributed.run import get_args_parser

    options = get_args_parser().parse_args([str(int(w) // 2) if w.isdigit() else w for w in words])
    assert options.training_script == "cli.py"
    command = [*options.training_script_args, *_added(words)]
    done = run_ranks(int(options.nproc_per_node), lambda: cli.main(command))
    assert done.returncode == 0, done.stderr


def _shell(command: str, folder: Path) -> None:
    """Runs a line with ``bash``, which must succeed and print no error."""
    command = " ".join([command, *_added(shlex.split(command))])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.fixture
def workshop(
    in_tmp: Path, tiny_models: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with the files that the READMEs' commands name, as a user would have them."""
    _write_corpora(in_tmp)
    shutil.copytree(tiny_models("translation"), in_tmp / "runs" / "other")
    programs = in_tmp / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "cli.py").write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/cli.py "$@"\n')
    (programs / "cli.py").chmod(0o755)
    (in_tmp / "cli.py").symlink_to(ROOT / "cli.py")
    (in_tmp / "tests").symlink_to(ROOT / "tests")
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return in_tmp


def _write_corpora(folder: Path) -> None:
    """The corpora of a user, and those of the catalogue as if they had been fetched."""
    corpora = folder / "corpora"
    _write_translation(folder / "corpus", "test")
    _write_translation(corpora / "multi30k", "test_2016_flickr")
    _write_tables(folder)
    for path in (folder / "labeled", corpora / "ag_news"):
        write_classification(path)
    with (corpora / "ag_news" / "classes.txt").open("a") as file:
        file.write("Sci/Tech\n")
    for path in (folder / "couplets", corpora / "couplet"):
        write_couplet(path)
    for side in (corpora / "couplet/test").iterdir():  # the shipped model ranks candidates
        side.write_text(side.open(encoding="utf-8").readline(), encoding="utf-8")
    (folder / "german.txt").write_text("Ein Hund rennt.\nZwei Kinder lachen.\nGuten Tag.\n")
    (folder / "captions.en").write_text("A dog runs.\nTwo children laugh.\n")
    (folder / "pairs.tsv").write_text("春风送暖\t瑞气迎新\n", encoding="utf-8")


def _write_tables(folder: Path) -> None:
    """The tables of a user: 90 labeled rows, new rows without labels, and sentences."""
    words = {"sports": "goal coach medal final", "business": "bank shares oil profit"}
    rows = [(name, *text.split()) for name, text in words.items()] * 45
    lines = [f"{a} {b},{c} {d} {n},{name}" for n, (name, a, b, c, d) in enumerate(rows)]
    for name in ("my.csv", "checked.csv"):
        (folder / name).write_text("\n".join(["title,body,topic", *lines]))
    (folder / "new.csv").write_text("title,body\ngoal coach,medal\n")
    sentences = [
        f"{['Ein Hund rennt', 'A dog runs'][n % 2]} {n},{'de' if n % 2 else 'en'}"
        for n in range(90)
    ]
    pairs = [f"ein Hund {n},a dog {n}" for n in range(90)]
    (folder / "pairs.csv").write_text("\n".join(["de,en", *pairs]))
    (folder / "languages.csv").write_text("\n".join(["sentence,language", *sentences]))


def _write_translation(folder: Path, test_split: str) -> None:
    write_translation(folder)
    for path in folder.glob("test_tiny.*"):
        path.rename(folder / f"{test_split}{path.suffix}")
    for path in folder.glob("*.en"):
        shutil.copy(path, path.with_suffix(".fr"))


# Both READMEs, and the rest of the documentation


def test_both_show_the_same_commands() -> None:
    """The commands and examples of the first are executed, so they are tested for both."""
    first, second = (
        [block.examples() or block.commands() for block in SHELL if block.document == readme]
        for readme in READMES
    )
    assert first == second
    first, second = ([case[1:] for case in EXAMPLES if case[0].document == r] for r in READMES)
    assert first == second
    assert {command.split()[1] for command, _ in first} >= {"translate", "classify", "couplet"}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_is_linked_exists(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path = link.partition("#")[0]
        if not link.startswith(("https://", "http://", "mailto:")) and path:
            assert ((ROOT / document).parent / path).exists(), link


def text_of(readme: str) -> str:
    """Returns a README and the manual in its language."""
    return "\n".join((ROOT / page).read_text("utf-8") for page in (readme, *MANUAL[readme]))


@functools.cache
def options_of_the_commands() -> frozenset[str]:
    """Every option of every command."""

    def options(command: click.Command, context: click.Context) -> Iterator[str]:
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from options(below, click.Context(below, parent=context))

    return frozenset(options(cli.main, click.Context(cli.main)))


@pytest.mark.parametrize("readme", READMES)
def test_every_option_that_is_named_exists(readme: str) -> None:
    """In the prose: options of other programs stand in blocks, or in the same pair of backticks."""
    text = text_of(readme)
    prose = re.sub(r"(?ms)^```.*?^```$|^    .*?$", "", text)
    named = {
        option
        for code in re.findall(r"`([^`]+)`", prose)
        if code.startswith(("--", "cli.py"))
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)
    }
    assert {"--beam", "--sample", "--resume"} <= named
    assert named <= options_of_the_commands() | {"--help"}


@pytest.mark.parametrize("readme", READMES)
def test_every_training_option_that_is_named_exists(readme: str) -> None:
    """In the table of options and in the prose."""
    text = text_of(readme)
    rows = [line for line in text.splitlines() if re.match(r"\| `[a-z_]+`", line)]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    named |= set(re.findall(r"--set train\.([a-z]\w*)=", text))
    options = {option.name for option in dataclasses.fields(TrainConfig)}
    assert {"ema", "epochs", "precision"} <= named
    assert named <= options
