"""The pages of the guide: their code is run, and what it prints is compared or written.

    python -m tests.guide_pages            # writes into docs/ what the code prints now
    python -m tests.guide_pages index.md   # only into one page

Look at the changes with ``git diff`` before you commit them.
"""

import ast
import contextlib
import io
import shlex
import sys
import tempfile
import tomllib
from typing import NamedTuple

from tests.commands.command_line import run
from tests.readme_blocks import ROOT, Block, blocks

LANGUAGES = ("en", "zh")
PAGES = sorted(
    path.relative_to(ROOT / "docs" / "en").as_posix() for path in (ROOT / "docs/en").rglob("*.md")
)
"""Every page of the guide, relative to the folder of a language."""


class Printed(NamedTuple):
    """What a block of a page prints now, and what the page shows.

    ``number`` is that of the block with the output: of a ``text`` block after Python, or of a
    ``console`` block itself, whose text is its commands and their output.
    """

    number: int
    code: Block
    prints: str
    shown: str


def document(language: str, page: str) -> str:
    """Returns the path of a page in the repository."""
    return f"docs/{language}/{page}"


def run_page(page: str) -> list[Printed]:
    """Runs the code of a page, block after block as in one session, in the current folder.

    In Python blocks, later ones see the names of those before. In ``console`` blocks, the commands
    after a ``$`` are run.
    """
    names: dict[str, object] = {"__name__": "guide"}
    of_page = blocks(document("en", page))
    results = []
    for number, block in enumerate(of_page):
        if block.language == "python":
            after = of_page[number + 1] if number + 1 < len(of_page) else None
            has_output = after is not None and after.language == "text"
            shown = after.text if after is not None and has_output else ""
            results.append(Printed(number + 1, block, _run_python(block, names), shown))
        if block.language == "console":
            results.append(Printed(number, block, _run_console(block), block.text))
    return results


def _run_python(block: Block, names: dict[str, object]) -> str:
    output = io.StringIO()
    # Empty lines before it let a traceback name the line of the page.
    source = "\n" * (block.line - 1) + block.text
    with contextlib.redirect_stdout(output):
        exec(compile(source, str(ROOT / block.document), "exec"), names)
    return output.getvalue().rstrip("\n")


def _run_console(block: Block) -> str:
    lines = []
    for command, _ in block.examples():
        program, *arguments = shlex.split(command)
        assert program == "cli.py", f"{block}: {command}"
        done = run(*arguments)
        assert done.exit_code == 0, f"{block}: {command}\n{done.output}"
        lines += [f"$ {command}", *done.stdout.splitlines()]
    return "\n".join(lines)


def same_in_all_languages(block: Block) -> object:
    """Returns the part of a block that has no language: all of it, but not its comments."""
    if block.language == "python":
        return ast.dump(ast.parse(block.text))
    if block.language == "toml":
        return tomllib.loads(block.text)
    return block.commands() if block.language == "sh" else block.text


def write_outputs(page: str) -> None:
    """Writes into all translations of a page what its code prints."""
    printed = run_page(page)
    for language in LANGUAGES:
        path = ROOT / document(language, page)
        lines = path.read_text(encoding="utf-8").splitlines()
        of_page = blocks(document(language, page))
        for result in reversed(printed):
            if result.prints or result.shown:
                block = of_page[result.number]
                first = block.line - 1
                last = first + len(block.text.splitlines())
                lines[first:last] = result.prints.splitlines()
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Runs the pages that are named, or all, and writes what they print."""
    for page in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            write_outputs(page)


if __name__ == "__main__":
    main()
