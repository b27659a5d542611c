"""The kinds of ``plot`` that need no model: what the Transformer and its training consist of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from transformer_suite.tasks.commands.options import picture_option
from transformer_suite.tasks.commands.output import print_results

MAX_WIDTH = 8192
MAX_POSITIONS = 1000
MAX_STEPS = 100_000_000
MAX_BARS = 50
MAX_LINES = 6
"""The most lines in one panel, so that their colors can be told apart."""


def check_lines(
    ctx: click.Context, parameter: click.Parameter, values: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Refuses an option that is given more often than the picture has colors."""
    if len(values) > MAX_LINES:
        raise click.BadParameter(f"at most {MAX_LINES} values fit into one picture.")
    return values


@click.command()
@click.argument("text", default="a dog runs on the beach")
@click.option(
    "--padding",
    type=click.IntRange(0, MAX_BARS),
    default=2,
    show_default=True,
    help="The number of <pad> after the text.",
)
@picture_option("masks")
def masks(text: str, padding: int, output: Path) -> None:
    """Draw the causal mask, the padding mask and their union for the words of TEXT.

    \b
        plot masks "a dog runs" --padding 3
    """
    from transformer_suite.tasks.plots.masks import draw_masks

    draw_masks(output, text.split(), padding=padding)
    print_results(f"{output}\n")


@click.command()
@click.option(
    "--d-model",
    type=click.IntRange(2, MAX_WIDTH),
    default=128,
    show_default=True,
    help="The width of the sinusoids, even.",
)
@click.option(
    "--head-dim",
    type=click.IntRange(2, MAX_WIDTH // 8),
    default=64,
    show_default=True,
    help="The width of a head with rotary positions, even.",
)
@click.option(
    "--length",
    type=click.IntRange(2, MAX_POSITIONS),
    default=200,
    show_default=True,
    help="The number of positions.",
)
@picture_option("positions")
def positions(d_model: int, head_dim: int, length: int, output: Path) -> None:
    """Draw what each scheme of positions does: sinusoidal, learned, rotary, shaw and t5.

    \b
        plot positions --d-model 512 --length 100 --output positions.svg
    """
    from transformer_suite.tasks.plots.positions import draw_positions

    draw_positions(output, d_model=d_model, head_dim=head_dim, length=length)
    print_results(f"{output}\n")


@click.command()
@click.option(
    "--d-model",
    "d_models",
    type=click.IntRange(1, MAX_WIDTH),
    multiple=True,
    callback=check_lines,
    default=(512, 256),
    show_default=True,
    help="The width of the model. May be repeated.",
)
@click.option(
    "--warmup-steps",
    type=click.IntRange(1, MAX_STEPS),
    multiple=True,
    callback=check_lines,
    default=(4000, 8000),
    show_default=True,
    help="The number of warmup steps. May be repeated.",
)
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, 1000, min_open=True),
    default=1e-3,
    show_default=True,
    help="The peak of the schedules other than noam.",
)
@click.option(
    "--steps",
    type=click.IntRange(2, MAX_STEPS),
    default=20_000,
    show_default=True,
    help="The number of steps.",
)
@picture_option("schedule")
def schedule(
    d_models: tuple[int, ...],
    warmup_steps: tuple[int, ...],
    learning_rate: float,
    steps: int,
    output: Path,
) -> None:
    """Draw the learning-rate schedules side by side.

    The first panel has the paper's schedule (noam) for every --d-model and --warmup-steps. The
    second one has noam, inverse_sqrt, cosine and constant for the first of them.

    \b
        plot schedule --d-model 256 --warmup-steps 1200 --steps 10000
    """
    if (count := len(d_models) * len(warmup_steps)) > MAX_LINES:
        raise click.UsageError(f"at most {MAX_LINES} lines fit into a panel, not {count} lines.")
    from transformer_suite.tasks.plots.schedules import draw_schedules

    draw_schedules(
        output,
        d_models=d_models,
        warmup_steps=warmup_steps,
        learning_rate=learning_rate,
        total_steps=steps,
    )
    print_results(f"{output}\n")


@click.command()
@click.option(
    "--smoothing",
    type=click.FloatRange(0, 1, max_open=True),
    multiple=True,
    callback=check_lines,
    default=(0.0, 0.1, 0.3),
    show_default=True,
    help="The part of the target distribution that all words share. May be repeated.",
)
@click.option(
    "--vocab-size",
    type=click.IntRange(2, MAX_BARS),
    default=5,
    show_default=True,
    help="The number of words.",
)
@picture_option("label-smoothing")
def label_smoothing(smoothing: tuple[float, ...], vocab_size: int, output: Path) -> None:
    """Draw the smoothed target distribution, and the loss by the predicted probability.

    \b
        plot label-smoothing --smoothing 0 --smoothing 0.1 --vocab-size 8
    """
    from transformer_suite.tasks.plots.label_smoothing import draw_label_smoothing

    draw_label_smoothing(output, smoothing=smoothing, vocab_size=vocab_size)
    print_results(f"{output}\n")
