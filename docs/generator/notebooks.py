"""Writes each page of the guide as a notebook, with the outputs that the page shows.

    python -m docs.generator.notebooks notebooks      # or: make notebooks

The code cells are the blocks of the page that ``tests/test_guide.py`` runs, after one that finds
the repository.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from docs.generator.chinese import joined
from docs.generator.reference import with_reference
from docs.generator.sources import ROOT, with_sources

SETUP = """\
import os
import sys
from pathlib import Path

here = Path.cwd()
os.chdir(next(folder for folder in (here, *here.parents) if (folder / "cli.py").exists()))
sys.path.insert(0, os.getcwd())"""

_BLOCK = re.compile(r"^```(python|console|text)\n(.*?)\n```\n", re.MULTILINE | re.DOTALL)


def notebook(language: str, page: str) -> Any:
    """Returns a page as a notebook; ``page`` is relative to the folder of the language."""
    text = (ROOT / "docs" / language / page).read_text(encoding="utf-8")
    cells = [new_code_cell(SETUP)]
    # Text, then the language and the content of a block, then text again.
    before, *rest = _BLOCK.split(f"{text}\n")
    cells.append(new_markdown_cell(_markdown(before, language, page)))
    for kind, block, after in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if kind == "python":
            cells.append(new_code_cell(block))
        elif kind == "console":
            commands, outputs = [], []
            for line in block.splitlines():
                (commands if line.startswith("$ cli.py ") else outputs).append(line)
            run = (f"!{{sys.executable}} {line.removeprefix('$ ')}" for line in commands)
            cells.append(new_code_cell("\n".join(run)))
            cells[-1].outputs = [_printed("\n".join(outputs))]
        elif cells[-1].cell_type == "code":
            cells[-1].outputs = [_printed(block)]
        else:
            cells[-1].source += f"\n\n```text\n{block}\n```"
        if after.strip():
            cells.append(new_markdown_cell(_markdown(after, language, page)))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # else it is random
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _printed(text: str) -> Any:
    return new_output("stream", name="stdout", text=f"{text}\n")


def _markdown(text: str, language: str, page: str) -> str:
    """Returns the text of a page with its directives replaced, and links from ``notebooks/``."""
    up = "../" * (page.count("/") + 2)
    text = with_reference(with_sources(joined(text), f"{language}/{page}"))
    text = re.sub(rf"\]\((?!\w+:|{up})([^)#]*?)\.md(#[^)]*)?\)", r"](\1.ipynb)", text)
    text = re.sub(r"\]\((?:\.\./)+source/([^)]*)\.ipynb\)", rf"]({up}\1)", text)
    text = re.sub(r'(\]\(|src=")(?:\.\./)+(pictures|inside)/', rf"\1{up}docs/\2/", text)
    return re.sub(r"\{ \.\w+ \}", "", text).strip()


def main(folder: Path) -> None:
    """Writes all pages of all languages into ``folder``."""
    for path in sorted((ROOT / "docs").glob("[a-z][a-z]/**/*.md")):
        language, *parts = path.relative_to(ROOT / "docs").parts
        page = "/".join(parts)
        target = (folder / language / page).with_suffix(".ipynb")
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook(language, page), target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
