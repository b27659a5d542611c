"""``plot``: pictures that explain the Transformer, and pictures of what was measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from transformer_suite.core.errors import ConfigError, TextError
from transformer_suite.tasks import registry
from transformer_suite.tasks.commands.options import (
    PATH,
    check_prefix,
    machine_options,
    model_option,
    use_threads,
)
from transformer_suite.tasks.commands.output import print_results, table

MAX_WIDTH = 8192
MAX_POSITIONS = 1000
MAX_LAYERS = 1000
MAX_STEPS = 100_000_000
MAX_BARS = 50
MAX_NEIGHBORS = 100
MAX_LINES = 6
"""The most lines in one panel, so that their colors can be told apart."""


@click.group()
def plot() -> None:
    """Draw a picture: .png, .svg or .pdf. The name of its file is printed."""


def output_option(name: str) -> Callable[[Any], Any]:
    """Returns the option of the picture's file, ``name``.png in the current folder by default."""
    return click.option(
        "--output",
        type=PATH,
        default=Path(f"{name}.png"),
        show_default=True,
        metavar="FILE",
        help="The picture: .png, .svg or .pdf.",
    )


def check_lines(
    ctx: click.Context, parameter: click.Parameter, values: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Refuses an option that is given more often than the picture has colors."""
    if len(values) > MAX_LINES:
        raise click.BadParameter(f"at most {MAX_LINES} values fit into one picture.")
    return values


@plot.command()
@click.argument("runs", metavar="RUN...", type=PATH, nargs=-1, required=True)
@output_option("history")
def history(runs: tuple[Path, ...], output: Path) -> None:
    """Draw the training curves of one or several runs in one picture.

    A RUN is the folder of a run or a checkpoint, or its history.csv. The picture shows losses, the
    metrics of the task, learning rate, gradient norm, speed and padding by epoch, with one color
    for each run.

    \b
        plot history runs/translation
        plot history runs/a runs/b --output compared.svg
    """
    from transformer_suite.tasks.runs.history import draw_histories

    draw_histories(runs, output)
    print_results(f"{output}\n")


@plot.command()
@click.argument("text", callback=check_prefix)
@click.argument("target", required=False, callback=check_prefix)
@click.option(
    "--task",
    type=click.Choice(registry.PAIR_TASKS),
    default=registry.PAIR_TASKS[0],
    show_default=True,
    help="The task of the model.",
)
@click.option(
    "--kind",
    type=click.Choice(("cross", "encoder", "decoder")),
    default="cross",
    show_default=True,
    help="From the decoder to the source, inside the encoder, or inside the decoder.",
)
@click.option(
    "--layer", type=click.IntRange(1, MAX_LAYERS), help="The number of the layer; else the last."
)
@model_option
@machine_options
@output_option("attention")
def attention(
    text: str,
    target: str | None,
    task: str,
    kind: str,
    layer: int | None,
    model: Path | None,
    device: str,
    threads: int | None,
    output: Path,
) -> None:
    """Draw the attention between TEXT and TARGET, all heads of one layer side by side.

    Without TARGET, it is the model's own output, and TEXT is one sentence.

    \b
        plot attention "Ein Hund rennt am Strand."
        plot attention --kind encoder --layer 2 "Ein Hund rennt." "A dog runs."
        plot attention --task couplet 晚风摇树树还挺 晨露润花花更红
    """
    from transformer_suite.tasks.pictures import check_picture

    check_picture(output)
    use_threads(threads)
    maps = registry.predictor(task, model, device=device).attention(text, target)
    if len(maps) != 1:
        raise TextError(f"the text has {len(maps)} sentences: give one")
    layers = len(getattr(maps[0], kind))
    if layer is not None and layer > layers:
        raise ConfigError(f"--layer must be from 1 to {layers}, not {layer}")
    maps[0].draw(output, kind=kind, layer=(layer or layers) - 1)
    print_results(f"{output}\n")


@plot.command()
@click.argument("text", default="a dog runs on the beach")
@click.option(
    "--padding",
    type=click.IntRange(0, MAX_BARS),
    default=2,
    show_default=True,
    help="The number of <pad> after the text.",
)
@output_option("masks")
def masks(text: str, padding: int, output: Path) -> None:
    """Draw the causal mask, the padding mask and their union for the words of TEXT.

    \b
        plot masks "a dog runs" --padding 3
    """
    from transformer_suite.tasks.plots.masks import draw_masks

    draw_masks(output, text.split(), padding=padding)
    print_results(f"{output}\n")


@plot.command()
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
@output_option("positions")
def positions(d_model: int, head_dim: int, length: int, output: Path) -> None:
    """Draw what each scheme of positions does: sinusoidal, learned, rotary, shaw and t5.

    \b
        plot positions --d-model 512 --length 100 --output positions.svg
    """
    from transformer_suite.tasks.plots.positions import draw_positions

    draw_positions(output, d_model=d_model, head_dim=head_dim, length=length)
    print_results(f"{output}\n")


@plot.command()
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
@output_option("schedule")
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


@plot.command()
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
@output_option("label-smoothing")
def label_smoothing(smoothing: tuple[float, ...], vocab_size: int, output: Path) -> None:
    """Draw the smoothed target distribution, and the loss by the predicted probability.

    \b
        plot label-smoothing --smoothing 0 --smoothing 0.1 --vocab-size 8
    """
    from transformer_suite.tasks.plots.label_smoothing import draw_label_smoothing

    draw_label_smoothing(output, smoothing=smoothing, vocab_size=vocab_size)
    print_results(f"{output}\n")


@plot.command()
@click.argument("word", callback=check_prefix)
@click.option(
    "--task",
    type=click.Choice(registry.TASKS),
    default=registry.TASKS[0],
    show_default=True,
    help="The task of the model.",
)
@click.option(
    "--side",
    type=click.Choice(("source", "target")),
    default="source",
    show_default=True,
    help="The embedding of the encoder or of the decoder.",
)
@click.option(
    "--count",
    type=click.IntRange(1, MAX_NEIGHBORS),
    default=15,
    show_default=True,
    help="The number of neighbors.",
)
@model_option
@machine_options
@output_option("neighbors")
def neighbors(
    word: str,
    task: str,
    side: str,
    count: int,
    model: Path | None,
    device: str,
    threads: int | None,
    output: Path,
) -> None:
    """Print the nearest words of WORD in the embedding of a model, and draw them as a map.

    A line has a token of the vocabulary and its cosine similarity to WORD. The last line is the
    name of the picture, which shows the plane in which the vectors differ most (PCA).

    \b
        plot neighbors Hund
        plot neighbors --task couplet 春 --count 20 --output spring.svg
        plot neighbors --task classification oil
    """
    from transformer_suite.tasks.pictures import check_picture
    from transformer_suite.tasks.plots.neighbors import neighbors as nearest_tokens

    check_picture(output)
    use_threads(threads)
    predictor = registry.predictor(task, model, device=device)
    found = nearest_tokens(task, predictor, word, side=side, count=count)
    found.draw(output)
    similarities = (f"{similarity:.3f}" for similarity in found.similarities)
    rows = table([*zip(found.tokens, similarities, strict=True)])
    print_results(f"{rows}{output}\n")


@plot.command()
@click.argument("run", metavar="RUN", type=PATH)
@output_option("confusion")
def confusion(run: Path, output: Path) -> None:
    """Draw the confusion matrix of a classifier.

    RUN is the folder of a classifier or of its report, or the output of `evaluate --json`.

    \b
        plot confusion runs/topics
        plot confusion report/report.json --output confusion.pdf
    """
    from transformer_suite.tasks.plots.classifier_report import draw_confusion

    draw_confusion(output, run)
    print_results(f"{output}\n")


@plot.command()
@click.argument("run", metavar="RUN", type=PATH)
@output_option("reliability")
def reliability(run: Path, output: Path) -> None:
    """Draw how often a classifier is right, by the probability that it gives.

    RUN is a folder with report.json, which `evaluate classification --report FOLDER` writes, or
    that file.

    \b
        plot reliability runs/topics
    """
    from transformer_suite.tasks.plots.classifier_report import draw_reliability

    draw_reliability(output, run)
    print_results(f"{output}\n")
