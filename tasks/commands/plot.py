"""``plot``: pictures that explain the Transformer, and pictures of what was measured."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click import FloatRange, IntRange

from core.errors import ConfigError, TextError
from core.storage.files import atomic_write
from tasks.commands import parameters
from tasks.commands.data import corpus_for
from tasks.commands.options import PATH, TEXT, given, option_names, require_folder_of, use_threads
from tasks.commands.output import print_results, table
from tasks.task import SEARCHING_TASKS, TASKS, task_named

MAX_WIDTH = 8192
MAX_STEPS = 100_000_000
MAX_BARS = 50


@click.group()
def plot() -> None:
    """Draw a picture: .png, .svg or .pdf. The name of its file is printed."""


def _add(name: str, draw: Any, help: str, example: str, *arguments: Any, **fixed: Any) -> None:
    """Adds a kind of picture: a command that prints a table, if there is one, and the file's name.

    Args:
        draw: draws it and returns the table; or its place in ``tasks``, as ``module.function``,
            which needs torch or matplotlib.
        arguments: those of ``draw``, after the file's name; ``fixed`` ones are no options.
    """

    @plot.command(name, help=f"{help}\n\n\b\n    plot {name} {example}")
    @parameters.combined(*arguments)
    @option("--output", PATH, Path(f"{name}.png"), "The picture: .png, .svg or .pdf.")
    def command(output: Path, **options: Any) -> None:
        from tasks.pictures import check_picture

        check_picture(output)
        require_folder_of(output)
        use_threads(options.pop("threads", None))
        if task := options.pop("task", None):
            model, device = options.pop("model"), options.pop("device")
            options["predictor"] = task_named(task).load(model, device=device)
        print_results(f"{table(_function(draw)(output, **options, **fixed) or [])}{output}\n")


def _function(place: str | Callable[..., Any]) -> Any:
    if callable(place):
        return place
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"...{module}", __name__), name)


def option(names: str, kind: Any, default: Any, help: str) -> Callable[[Any], Any]:
    """Returns an option; a tuple is all choices of its ``kind``, or a ``default`` of several."""
    several: dict[str, Any] = {}
    if isinstance(default, tuple):
        several, help = {"multiple": True}, f"{help} May be repeated."
    kind = click.Choice(kind) if isinstance(kind, tuple) else kind
    shown = {"default": default, "show_default": True, "help": help}
    return click.option(*names.split(), type=kind, **shown, **several)


def _draw_attention(
    output: Path, predictor: Any, text: str, target: str | None, kind: str, layer: int | None
) -> None:
    maps = predictor.attention(text, target)
    if len(maps) != 1:
        raise TextError(f"the text has {len(maps)} sentences: give one")
    layers = len(getattr(maps[0], kind))
    if layer is not None and layer > layers:
        raise ConfigError(f"--layer must be from 1 to {layers}, not {layer}")
    maps[0].draw(output, kind=kind, layer=(layer or layers) - 1)


def _draw_lengths(output: Path, data: Path | None, **options: Any) -> Any:
    from tasks.plots.learned import draw_lengths
    from tasks.seq2seq.request import GenerationRequest

    corpus = corpus_for(task_named("translation"), data)
    own = {name: options.pop(name) for name in ("model", "split", "metric", "width", "device")}
    with option_names():
        request = GenerationRequest.of(**given(options))
        return draw_lengths(output, data=corpus, request=request, **own)


_add(
    "masks",
    "plots.theory.draw_masks",
    "Draw the causal mask, the padding mask and their union for the words of TEXT.",
    '"a dog runs" --padding 3',
    click.argument("text", default="a dog runs on the beach"),
    option("--padding", IntRange(0, MAX_BARS), 2, "How many <pad> follow the text."),
)
_add(
    "positions",
    "plots.theory.draw_positions",
    "Draw what sinusoidal and rotary positions do.",
    "--d-model 512 --length 100 --output positions.svg",
    option("--d-model", IntRange(2, MAX_WIDTH), 128, "The sinusoids' width, even."),
    option("--head-dim", IntRange(2, MAX_WIDTH // 8), 64, "The width of a rotary head, even."),
    option("--length", IntRange(2, 1000), 200, "The number of positions."),
)
_add(
    "schedule",
    "plots.theory.draw_schedules",
    "Draw the learning-rate schedules side by side.\n\nThe first panel has the paper's (noam) for "
    "every --d-model and --warmup-steps, the second one all of them for the first of these.",
    "--d-model 256 --warmup-steps 1200 --steps 10000",
    option("--d-model d_models", IntRange(1, MAX_WIDTH), (512, 256), "The width of the model."),
    option("--warmup-steps", IntRange(1, MAX_STEPS), (4000, 8000), "The steps of the warmup."),
    option(
        "--learning-rate", FloatRange(0, 1000, min_open=True), 1e-3, "The peak; noam has its own."
    ),
    option("--steps total_steps", IntRange(2, MAX_STEPS), 20_000, "The number of steps."),
)
_add(
    "label-smoothing",
    "plots.theory.draw_label_smoothing",
    "Draw the smoothed target distribution, and the loss by the predicted probability.",
    "--smoothing 0 --smoothing 0.1 --vocab-size 8",
    option(
        "--smoothing",
        FloatRange(0, 1, max_open=True),
        (0.0, 0.1, 0.3),
        "The part of the target that all words share.",
    ),
    option("--vocab-size", IntRange(2, MAX_BARS), 5, "The number of words."),
)
_add(
    "attention",
    _draw_attention,
    "Draw the attention between TEXT and TARGET, all heads of one layer side by side.\n\nWithout "
    "TARGET, it is the model's own output, and TEXT is one sentence.",
    '--kind encoder --layer 2 "Ein Hund rennt." "A dog runs."',
    click.argument("text", type=TEXT),
    click.argument("target", required=False, type=TEXT),
    option("--task", SEARCHING_TASKS, TASKS[0], "The task of the model."),
    option(
        "--kind",
        ("cross", "encoder", "decoder"),
        "cross",
        "From the decoder to the source, inside the encoder, or inside the decoder.",
    ),
    click.option("--layer", type=IntRange(1, 1000), help="The number of the layer; else the last."),
    parameters.model,
    parameters.machine,
)


@plot.command()
@click.argument("text", type=TEXT)
@option("--task", TASKS, TASKS[0], "The task of the model.")
@option("--output --out", PATH, Path("inside.html"), "The page, which needs no other file.")
@parameters.model
@parameters.machine
def inside(
    task: str, model: Path | None, device: str, threads: int | None, text: str, output: Path
) -> None:
    """Write a page that shows the prediction of TEXT, one sentence, step by step.

    It has the way of the data, attention, and the search as a tree, beside greedy search and beams.

    \b
        plot inside "Ein Hund rennt." --task translation --output inside.html
    """
    if output.suffix != ".html":
        raise ConfigError(f"{output}: the page's name must end in .html")
    require_folder_of(output)
    use_threads(threads)
    predictor: Any = task_named(task).load(model, device=device)
    widths = range(1, 9) if task_named(task).has_search else ()
    others = [predictor.trace(text, beam_size=width) for width in widths]
    with atomic_write(output) as temporary:
        temporary.write_text(predictor.trace(text).beside(*others).html(), encoding="utf-8")
    print_results(f"{output}\n")


_add(
    "neighbors",
    "plots.learned.draw_neighbors",
    "Print the nearest words of WORD in the embedding of a model, and draw them as a map.\n\nA "
    "line has a token and its cosine similarity to WORD. The map is the plane in which the vectors "
    "differ most (PCA).",
    "--task couplet 春 --count 20 --output spring.svg",
    click.argument("word", type=TEXT),
    option("--task", TASKS, TASKS[0], "The task of the model."),
    option(
        "--side", ("source", "target"), "source", "The embedding of the encoder or of the decoder."
    ),
    option("--count", IntRange(1, 100), 15, "The number of neighbors."),
    parameters.model,
    parameters.machine,
)
_add(
    "length",
    _draw_lengths,
    "Print and draw the quality of translations by the length of their sources.\n\nA line has the "
    "numbers of tokens of the sources, the number of sentences, and the score.",
    "--model runs/mine --data corpus/ --split val --metric bleu --width 10",
    parameters.models,
    parameters.corpus,
    click.option("--split", metavar="NAME", help="A split of the corpus; else the test split."),
    option("--metric", ("chrf", "bleu"), "chrf", "The score of the translations."),
    option("--width", IntRange(1, 10_000), 5, "The number of lengths in a bin."),
    parameters.machine,
    parameters.batch,
    parameters.search,
)
_add(
    "history",
    "plots.training_curves.draw_histories",
    "Draw the training curves of one or several runs in one picture.\n\nA RUN is the folder of a "
    "run or a checkpoint, or its history.csv. Each of its columns has a panel, each run a color.",
    "runs/a runs/b --output compared.svg",
    click.argument("runs", metavar="RUN...", type=PATH, nargs=-1, required=True),
)
_RUN = click.argument("run", metavar="RUN", type=PATH)
_add(
    "confusion",
    "classification.charts.draw_chart",
    "Draw the confusion matrix of a classifier.\n\nRUN is the folder of a classifier or of its "
    "report, or the output of `evaluate --json`.",
    "runs/topics",
    _RUN,
    kind="confusion",
)
_add(
    "reliability",
    "classification.charts.draw_chart",
    "Draw how often a classifier is right, by the probability that it gives.\n\nRUN is a folder "
    "with report.json, which `evaluate classification --report FOLDER` writes, or that file.",
    "report/report.json --output reliability.pdf",
    _RUN,
    kind="reliability",
)
