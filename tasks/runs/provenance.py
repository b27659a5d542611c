"""Provenance: what ``metrics.json`` records so that a run can be repeated."""

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from core.storage.files import is_folder
from core.training.state import DIGEST
from data.readers import reading

_ROOT = Path(__file__).resolve().parents[2]


def provenance(task: str, command: str | None = None) -> dict[str, Any]:
    """Returns what a model was made with; ``command`` replaces the one that is running."""
    return {
        "task": task,
        "command": command or command_line(),
        "commit": commit_of(_ROOT),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def corpus_digests(corpus: Path, files: Iterable[Path]) -> dict[str, str]:
    """Returns the digests of ``files`` by their names in the folder of ``corpus``."""
    digests = {}
    folder = corpus if is_folder(corpus) else corpus.parent
    for path in files:
        with reading(path), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        digests[os.path.relpath(path, folder)] = DIGEST + digest
    return digests


def commit_of(folder: Path) -> str | None:
    """Returns the commit checked out in ``folder``, with a "+" if files have changed since.

    None outside a checkout.
    """
    # Without this check, an installed copy would name the commit of the project that surrounds it.
    if not (folder / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()


def command_line() -> str:
    """Returns the running command as one would type it in a shell."""
    program = Path(sys.argv[0]).name
    command = ["python", program] if program.endswith(".py") else [program]
    return shlex.join([*command, *sys.argv[1:]])
