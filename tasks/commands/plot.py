"""``plot``: pictures that explain the Transformer, and pictures of what was measured."""

from __future__ import annotations

import click

from tasks.commands.plot_models import (
    attention,
    confusion,
    history,
    length,
    neighbors,
    reliability,
)
from tasks.commands.plot_theory import (
    label_smoothing,
    masks,
    positions,
    schedule,
)

KINDS: tuple[click.Command, ...] = (
    *(masks, positions, schedule, label_smoothing),
    *(attention, neighbors, history, length, confusion, reliability),
)


@click.group(commands=KINDS)
def plot() -> None:
    """Draw a picture: .png, .svg or .pdf. The name of its file is printed."""
