"""The blocks of code in a Markdown file, as a reader would copy them."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced or indented block: its language ("" where none is named), first line and text."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    def commands(self) -> list[str]:
        """The shell commands in the block, without comments; continued lines are joined."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        lines = (re.sub(r"(^|\s+)# .*|^#!.*", "", line).strip() for line in joined.splitlines())
        return [line for line in lines if line]

    def examples(self) -> list[tuple[str, str]]:
        """Each command after a ``$``, with the output that is shown below it."""
        shown: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                shown.append((line.removeprefix("$ "), []))
            elif shown:
                shown[-1][1].append(line)
        return [(command, "\n".join(output)) for command, output in shown]


def blocks(document: str) -> list[Block]:
    """All blocks of a document in the repository, in their order."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    return [
        Block(document=document, line=first, language=language, text=text)
        for first, language, text in _blocks(lines)
    ]


def _blocks(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    number = 0
    while number < len(lines):
        if lines[number].startswith("```"):
            end = lines.index("```", number + 1)
            language = lines[number].removeprefix("```").strip()
            yield number + 2, language, "\n".join(lines[number + 1 : end])
            number = end + 1
        elif lines[number].startswith("    "):
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end]):
                end += 1
            text = "\n".join(line.removeprefix("    ") for line in lines[number:end]).rstrip()
            yield number + 1, "", text
            number = end
        else:
            number += 1


def check_target(target: str) -> None:
    """Checks that ``make`` knows a target."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    subprocess.run([make, "-n", target], cwd=ROOT, capture_output=True, check=True)
