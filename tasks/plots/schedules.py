"""Learning-rate schedules (:mod:`core.training.schedule`) side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from core.training.config import SCHEDULES, TrainConfig
from core.training.schedule import CustomSchedule, Schedule, make_schedule
from tasks.pictures import picture

_POINTS = 1000
_LINES = ("-", "--", "-.", ":")


def draw_schedules(
    path: str | Path,
    *,
    d_models: Sequence[int] = (512, 256),
    warmup_steps: Sequence[int] = (4000, 8000),
    learning_rate: float = 1e-3,
    total_steps: int = 20_000,
) -> None:
    """Draws the paper's schedule for several sizes, and all schedules for the first of them.

    Args:
        d_models, warmup_steps: every pair of them has a line in the first panel.
        learning_rate: the peak in the second panel; "noam" has its own.
        total_steps: the last step.

    Raises:
        ConfigError, UserError: a value out of range; or as for :func:`.picture`.
    """
    d_model, warmup = d_models[0], warmup_steps[0]
    config = TrainConfig(warmup_steps=warmup, learning_rate=learning_rate)
    paper: dict[str, Schedule] = {
        f"d_model = {size}, {steps:,} warmup steps": CustomSchedule(size, steps)
        for size in d_models
        for steps in warmup_steps
    }
    kinds = {
        kind: make_schedule(
            replace(config, schedule=kind), d_model=d_model, total_steps=total_steps
        )
        for kind in SCHEDULES
    }
    panels: dict[str, Mapping[str, Schedule]] = {
        "noam (equation 3 of the paper)": paper,
        f"all schedules: d_model = {d_model}, {warmup:,} warmup steps": kinds,
    }
    steps = sorted({*range(1, total_steps + 1, max(1, total_steps // _POINTS)), total_steps})
    with picture(path) as figure:
        figure.set_size_inches(12, 4.5)
        for axes, (title, rates) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            for number, (name, rate) in enumerate(rates.items()):
                line = _LINES[number % len(_LINES)]
                axes.plot(steps, [rate(step) for step in steps], linestyle=line, label=name)
            axes.set(title=title, xlabel="step", ylabel="learning rate", ylim=(0, None))
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
            axes.grid()
            axes.legend()
