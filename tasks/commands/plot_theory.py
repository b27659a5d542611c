"""The kinds of ``plot`` that need no model: what the Transformer and its training consist of."""

from __future__ import annotations

from pathlib import Path

import click

from tasks.commands.options import MAX_LINES, number_option, picture_option
from tasks.commands.output import print_results

MAX_WIDTH = 8192
MAX_POSITIONS = 1000
MAX_STEPS = 100_000_000
MAX_BARS = 50


@click.command()
@click.argument("text", default="a dog runs on the beach")
@number_option(
    "--padding",
    type=click.IntRange(0, MAX_BARS),
    default=2,
    help="The number of <pad> after the text.",
)
@picture_option("masks")
def masks(text: str, padding: int, output: Path) -> None:
    """Draw the causal mask, the padding mask and their union for the words of TEXT.

    \b
        plot masks "a dog runs" --padding 3
    """
    from tasks.plots.masks import draw_masks

    draw_masks(output, text.split(), padding=padding)
    print_results(f"{output}\n")


@click.command()
@number_option(
    "--d-model",
    type=click.IntRange(2, MAX_WIDTH),
    default=128,
    help="The width of the sinusoids, even.",
)
@number_option(
    "--head-dim",
    type=click.IntRange(2, MAX_WIDTH // 8),
    default=64,
    help="The width of a head with rotary positions, even.",
)
@number_option(
    "--length",
    type=click.IntRange(2, MAX_POSITIONS),
    default=200,
    help="The number of positions.",
)
@picture_option("positions")
def positions(d_model: int, head_dim: int, length: int, output: Path) -> None:
    """Draw what each scheme of positions does: sinusoidal, learned, rotary, shaw and t5.

    \b
        plot positions --d-model 512 --length 100 --output positions.svg
    """
    from tasks.plots.positions import draw_positions

    draw_positions(output, d_model=d_model, head_dim=head_dim, length=length)
    print_results(f"{output}\n")


@click.command()
@number_option(
    "--d-model",
    "d_models",
    type=click.IntRange(1, MAX_WIDTH),
    default=(512, 256),
    help="The width of the model.",
)
@number_option(
    "--warmup-steps",
    type=click.IntRange(1, MAX_STEPS),
    default=(4000, 8000),
    help="The number of warmup steps.",
)
@number_option(
    "--learning-rate",
    type=click.FloatRange(0, 1000, min_open=True),
    default=1e-3,
    help="The peak of the schedules other than noam.",
)
@number_option(
    "--steps",
    type=click.IntRange(2, MAX_STEPS),
    default=20_000,
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
    from tasks.plots.schedules import draw_schedules

    draw_schedules(
        output,
        d_models=d_models,
        warmup_steps=warmup_steps,
        learning_rate=learning_rate,
        total_steps=steps,
    )
    print_results(f"{output}\n")


@click.command()
@number_option(
    "--smoothing",
    type=click.FloatRange(0, 1, max_open=True),
    default=(0.0, 0.1, 0.3),
    help="The part of the target distribution that all words share.",
)
@number_option(
    "--vocab-size",
    type=click.IntRange(2, MAX_BARS),
    default=5,
    help="The number of words.",
)
@picture_option("label-smoothing")
def label_smoothing(smoothing: tuple[float, ...], vocab_size: int, output: Path) -> None:
    """Draw the smoothed target distribution, and the loss by the predicted probability.

    \b
        plot label-smoothing --smoothing 0 --smoothing 0.1 --vocab-size 8
    """
    from tasks.plots.label_smoothing import draw_label_smoothing

    draw_label_smoothing(output, smoothing=smoothing, vocab_size=vocab_size)
    print_results(f"{output}\n")
