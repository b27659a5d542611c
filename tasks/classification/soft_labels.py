"""Soft labels: the probabilities that other models give the training texts (distillation).

A model that learns from the mean of several models' probabilities learns much of what they know
together (Hinton, Vinyals and Dean 2015). They also correct labels that are wrong, if the models
were not trained on these texts themselves (cross-fitting; Dao et al. 2021, section 3).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.config import nearest
from core.errors import CorpusError, shown
from core.progress import log
from data.readers import iter_lines
from tasks.classification.classes import listed


def read_soft_labels(
    paths: Sequence[Path], classes: Sequence[str], labels: Sequence[int], training: Path
) -> Tensor:
    """Returns the mean of the probabilities in several files ``[N, C]``.

    The files are JSON Lines such as ``classify --json`` writes, with a line for each row of
    ``training``: an object whose ``probabilities`` map classes to numbers. A class that is left out
    has the probability 0. The share of the labels with which a file agrees is reported on stderr.

    Args:
        labels: the class numbers of the N rows of ``training``.

    Raises:
        CorpusError: a file cannot be read, or does not fit the classes or the number of rows.
    """
    truth = torch.tensor(labels)
    total = torch.zeros(len(labels), len(classes))
    for path in paths:
        rows = _read(path, classes)
        if len(rows) != len(labels):
            raise CorpusError(
                path,
                f"{len(rows):,} lines, but {training} has {len(labels):,} labeled texts: line n "
                "must belong to text n",
            )
        found = torch.tensor(rows)
        agreement = (found.argmax(dim=1) == truth).float().mean().item()
        log(f"{path}: {100 * agreement:.2f}% of the labels have the highest probability")
        total += found / len(paths)
    return total


def _read(path: Path, classes: Sequence[str]) -> list[list[float]]:
    """Returns the probabilities in one file, in the order of ``classes``; each row adds up to 1."""
    numbers = {name: number for number, name in enumerate(classes)}
    rows = []
    for line, text in enumerate(iter_lines(path), start=1):
        row = [0.0] * len(classes)
        for name, value in _probabilities(path, line, text).items():
            if name not in numbers:
                hint = nearest(name, classes) or f"; the classes: {listed(classes)}"
                raise CorpusError(path, f"{shown(name)} is not a class{hint}", line)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0.0 <= value < math.inf:
                raise CorpusError(path, f"{shown(value)} is not a probability", line)
            row[numbers[name]] = float(value)
        total = sum(row)
        if not 0.0 < total < math.inf:
            raise CorpusError(path, "no class has a probability above 0", line)
        rows.append([value / total for value in row])
    return rows


def _probabilities(path: Path, line: int, text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    found = value.get("probabilities") if isinstance(value, dict) else None
    if not isinstance(found, dict):
        reason = 'not an object with "probabilities", as classify --json writes them'
        raise CorpusError(path, reason, line)
    return found
