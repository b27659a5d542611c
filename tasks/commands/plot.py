"""``plot``: pictures that explain the Transformer, and pictures of what was measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click import FloatRange, IntRange

from core.errors import ConfigError, TextError
from tasks.commands.corpus import corpus_for
from tasks.commands.options import (
    PATH,
    ModelOptions,
    batch_option,
    check_prefix,
    data_option,
    given,
    machine_options,
    model_option,
    models_option,
    option_names,
    search_options,
    take,
    use_threads,
)
from tasks.commands.output import print_results, table
from tasks.task import PAIR_TASKS, TASKS, task_named

MAX_WIDTH = 8192
MAX_STEPS = 100_000_000
MAX_BARS = 50
MAX_LINES = 6
"""The most lines in one panel, so that their colors can be told apart."""


@click.group()
def plot() -> None:
    """Draw a picture: .png, .svg or .pdf. The name of its file is printed."""


def kind(name: str) -> Callable[[Callable[..., str | None]], click.Command]:
    """Makes a kind of ``plot`` of a function that draws; what it returns is printed before."""

    def decorate(draw: Callable[..., str | None]) -> click.Command:
        @plot.command(name)
        @option("--output", PATH, Path(f"{name}.png"), "The picture: .png, .svg or .pdf.")
        @wraps(draw)
        def command(output: Path, **options: Any) -> None:
            from tasks.pictures import check_picture

            check_picture(output)
            print_results(f"{draw(output, **options) or ''}{output}\n")

        return command

    return decorate


def option(names: str, kind: Any, default: Any, help: str) -> Callable[[Any], Any]:
    """Returns an option; a tuple is all choices of its ``kind``, or a ``default`` of several."""
    several: dict[str, Any] = {}
    if isinstance(default, tuple):
        several, help = {"multiple": True, "callback": check_lines}, f"{help} May be repeated."
    kind = click.Choice(kind) if isinstance(kind, tuple) else kind
    shown = {"default": default, "show_default": True, "help": help}
    return click.option(*names.split(), type=kind, **shown, **several)


def check_lines(
    ctx: click.Context, parameter: click.Parameter, values: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Refuses an option that is given more often than the picture has colors."""
    if len(values) > MAX_LINES:
        raise click.BadParameter(f"at most {MAX_LINES} values fit into one picture.")
    return values


@kind("masks")
@click.argument("text", default="a dog runs on the beach")
@option("--padding", IntRange(0, MAX_BARS), 2, "How many <pad> follow the text.")
def masks(output: Path, text: str, padding: int) -> None:
    """Draw the causal mask, the padding mask and their union for the words of TEXT.

    \b
        plot masks "a dog runs" --padding 3
    """
    from tasks.plots.masks import draw_masks

    draw_masks(output, text.split(), padding=padding)


@kind("positions")
@option("--d-model", IntRange(2, MAX_WIDTH), 128, "The sinusoids' width, even.")
@option("--head-dim", IntRange(2, MAX_WIDTH // 8), 64, "The width of a rotary head, even.")
@option("--length", IntRange(2, 1000), 200, "The number of positions.")
def positions(output: Path, **options: int) -> None:
    """Draw what sinusoidal and rotary positions do.

    \b
        plot positions --d-model 512 --length 100 --output positions.svg
    """
    from tasks.plots.positions import draw_positions

    draw_positions(output, **options)


@kind("schedule")
@option("--d-model d_models", IntRange(1, MAX_WIDTH), (512, 256), "The width of the model.")
@option("--warmup-steps", IntRange(1, MAX_STEPS), (4000, 8000), "The steps of the warmup.")
@option("--learning-rate", FloatRange(0, 1000, min_open=True), 1e-3, "The peak; noam has its own.")
@option("--steps total_steps", IntRange(2, MAX_STEPS), 20_000, "The number of steps.")
def schedule(
    output: Path, d_models: tuple[int, ...], warmup_steps: tuple[int, ...], **options: Any
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

    draw_schedules(output, d_models=d_models, warmup_steps=warmup_steps, **options)


@kind("label-smoothing")
@option(
    "--smoothing",
    FloatRange(0, 1, max_open=True),
    (0.0, 0.1, 0.3),
    "The part of the target that all words share.",
)
@option("--vocab-size", IntRange(2, MAX_BARS), 5, "The number of words.")
def label_smoothing(output: Path, smoothing: tuple[float, ...], vocab_size: int) -> None:
    """Draw the smoothed target distribution, and the loss by the predicted probability.

    \b
        plot label-smoothing --smoothing 0 --smoothing 0.1 --vocab-size 8
    """
    from tasks.plots.label_smoothing import draw_label_smoothing

    draw_label_smoothing(output, smoothing=smoothing, vocab_size=vocab_size)


@kind("attention")
@click.argument("text", callback=check_prefix)
@click.argument("target", required=False, callback=check_prefix)
@option("--task", PAIR_TASKS, PAIR_TASKS[0], "The task of the model.")
@option(
    "--kind",
    ("cross", "encoder", "decoder"),
    "cross",
    "From the decoder to the source, inside the encoder, or inside the decoder.",
)
@click.option("--layer", type=IntRange(1, 1000), help="The number of the layer; else the last.")
@model_option
@machine_options
def attention(
    output: Path,
    text: str,
    target: str | None,
    task: str,
    kind: str,
    layer: int | None,
    **machine: Any,
) -> None:
    """Draw the attention between TEXT and TARGET, all heads of one layer side by side.

    Without TARGET, it is the model's own output, and TEXT is one sentence.

    \b
        plot attention "Ein Hund rennt am Strand."
        plot attention --kind encoder --layer 2 "Ein Hund rennt." "A dog runs."
        plot attention --task couplet 晚风摇树树还挺 晨露润花花更红
    """
    maps = _predictor(task, **machine).attention(text, target)
    if len(maps) != 1:
        raise TextError(f"the text has {len(maps)} sentences: give one")
    layers = len(getattr(maps[0], kind))
    if layer is not None and layer > layers:
        raise ConfigError(f"--layer must be from 1 to {layers}, not {layer}")
    maps[0].draw(output, kind=kind, layer=(layer or layers) - 1)


@kind("neighbors")
@click.argument("word", callback=check_prefix)
@option("--task", TASKS, TASKS[0], "The task of the model.")
@option("--side", ("source", "target"), "source", "The embedding of the encoder or of the decoder.")
@option("--count", IntRange(1, 100), 15, "The number of neighbors.")
@model_option
@machine_options
def neighbors(output: Path, word: str, task: str, side: str, count: int, **machine: Any) -> str:
    """Print the nearest words of WORD in the embedding of a model, and draw them as a map.

    A line has a token of the vocabulary and its cosine similarity to WORD. The last line is the
    name of the picture, which shows the plane in which the vectors differ most (PCA).

    \b
        plot neighbors Hund
        plot neighbors --task couplet 春 --count 20 --output spring.svg
        plot neighbors --task classification oil
    """
    from tasks.plots.neighbors import neighbors as nearest_tokens

    found = nearest_tokens(_predictor(task, **machine), word, side=side, count=count)
    found.draw(output)
    similarities = (f"{similarity:.3f}" for similarity in found.similarities)
    return table([*zip(found.tokens, similarities, strict=True)])


@kind("history")
@click.argument("runs", metavar="RUN...", type=PATH, nargs=-1, required=True)
def history(output: Path, runs: tuple[Path, ...]) -> None:
    """Draw the training curves of one or several runs in one picture.

    A RUN is the folder of a run or a checkpoint, or its history.csv. The picture shows losses, the
    metrics of the task, learning rate, gradient norm, speed and padding by epoch, with one color
    for each run.

    \b
        plot history runs/translation
        plot history runs/a runs/b --output compared.svg
    """
    from tasks.plots.training_curves import draw_histories

    draw_histories(runs, output)


@kind("length")
@models_option
@data_option
@click.option("--split", metavar="NAME", help="A split of the corpus; else the test split.")
@option("--metric", ("chrf", "bleu"), "chrf", "The score of the translations.")
@option("--width", IntRange(1, 10_000), 5, "The number of lengths in a bin.")
@machine_options
@batch_option
@search_options
def length(
    output: Path, data: Path | None, split: str | None, metric: str, width: int, **options: Any
) -> str:
    """Print and draw the quality of translations by the length of their sources.

    A line has the numbers of tokens of the sources, the number of sentences, and the score. The
    last line is the name of the picture.

    \b
        plot length --model runs/mine --data corpus/
        plot length --split val --metric bleu --width 10
    """
    own = take(ModelOptions, options)
    corpus = corpus_for(task_named("translation"), data)
    use_threads(own.threads)
    from tasks.plots.lengths import draw_lengths
    from tasks.seq2seq.request import GenerationRequest

    search = given({**options, "batch_tokens": own.batch_tokens})
    shown: dict[str, Any] = {"split": split, "metric": metric, "width": width}
    with option_names():
        request = GenerationRequest.of(**search)
        bins = draw_lengths(output, own.model, corpus, device=own.device, request=request, **shown)
    return table([(b.label, b.sentences, f"{b.score:.2f}") for b in bins])


@kind("confusion")
@click.argument("run", metavar="RUN", type=PATH)
def confusion(output: Path, run: Path) -> None:
    """Draw the confusion matrix of a classifier.

    RUN is the folder of a classifier or of its report, or the output of `evaluate --json`.

    \b
        plot confusion runs/topics
        plot confusion report/report.json --output confusion.pdf
    """
    from tasks.classification.charts import draw_chart

    draw_chart(output, run, "confusion")


@kind("reliability")
@click.argument("run", metavar="RUN", type=PATH)
def reliability(output: Path, run: Path) -> None:
    """Draw how often a classifier is right, by the probability that it gives.

    RUN is a folder with report.json, which `evaluate classification --report FOLDER` writes, or
    that file.

    \b
        plot reliability runs/topics
    """
    from tasks.classification.charts import draw_chart

    draw_chart(output, run, "reliability")


def _predictor(task: str, model: Path | None, device: str, threads: int | None) -> Any:
    use_threads(threads)
    return task_named(task).load(model, device=device)
