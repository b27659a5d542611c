"""The kinds of ``plot`` that show a model or a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from core.errors import ConfigError, TextError
from tasks import registry
from tasks.commands.corpus import corpus_for
from tasks.commands.options import (
    PATH,
    ModelOptions,
    batch_option,
    check_prefix,
    choice_option,
    data_option,
    given,
    machine_options,
    model_option,
    models_option,
    number_option,
    option_names,
    picture_option,
    search_options,
    take,
    use_threads,
)
from tasks.commands.output import print_results, table

MAX_LAYERS = 1000
MAX_NEIGHBORS = 100
MAX_BIN = 10_000


@click.command()
@click.argument("runs", metavar="RUN...", type=PATH, nargs=-1, required=True)
@picture_option("history")
def history(runs: tuple[Path, ...], output: Path) -> None:
    """Draw the training curves of one or several runs in one picture.

    A RUN is the folder of a run or a checkpoint, or its history.csv. The picture shows losses, the
    metrics of the task, learning rate, gradient norm, speed and padding by epoch, with one color
    for each run.

    \b
        plot history runs/translation
        plot history runs/a runs/b --output compared.svg
    """
    from tasks.runs.history import draw_histories

    draw_histories(runs, output)
    print_results(f"{output}\n")


@click.command()
@click.argument("text", callback=check_prefix)
@click.argument("target", required=False, callback=check_prefix)
@choice_option("--task", registry.PAIR_TASKS, "The task of the model.")
@choice_option(
    "--kind",
    ("cross", "encoder", "decoder"),
    "From the decoder to the source, inside the encoder, or inside the decoder.",
)
@click.option(
    "--layer", type=click.IntRange(1, MAX_LAYERS), help="The number of the layer; else the last."
)
@model_option
@machine_options
@picture_option("attention")
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
    from tasks.pictures import check_picture

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


@click.command()
@click.argument("word", callback=check_prefix)
@choice_option("--task", registry.TASKS, "The task of the model.")
@choice_option("--side", ("source", "target"), "The embedding of the encoder or of the decoder.")
@number_option(
    "--count", type=click.IntRange(1, MAX_NEIGHBORS), default=15, help="The number of neighbors."
)
@model_option
@machine_options
@picture_option("neighbors")
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
    from tasks.pictures import check_picture
    from tasks.plots.neighbors import neighbors as nearest_tokens

    check_picture(output)
    use_threads(threads)
    predictor = registry.predictor(task, model, device=device)
    found = nearest_tokens(task, predictor, word, side=side, count=count)
    found.draw(output)
    similarities = (f"{similarity:.3f}" for similarity in found.similarities)
    rows = table([*zip(found.tokens, similarities, strict=True)])
    print_results(f"{rows}{output}\n")


@click.command()
@models_option
@data_option
@click.option("--split", metavar="NAME", help="A split of the corpus; else the test split.")
@choice_option("--metric", ("chrf", "bleu"), "The score of the translations.")
@number_option(
    "--width", type=click.IntRange(1, MAX_BIN), default=5, help="The number of lengths in a bin."
)
@machine_options
@batch_option
@search_options
@picture_option("length")
def length(
    data: Path | None,
    split: str | None,
    metric: str,
    width: int,
    output: Path,
    **options: Any,
) -> None:
    """Print and draw the quality of translations by the length of their sources.

    A line has the numbers of tokens of the sources, the number of sentences, and the score. The
    last line is the name of the picture.

    \b
        plot length --model runs/mine --data corpus/
        plot length --split val --metric bleu --width 10
    """
    from tasks.pictures import check_picture

    check_picture(output)
    own = take(ModelOptions, options)
    corpus = corpus_for("translation", data)
    use_threads(own.threads)
    from tasks.plots.lengths import draw_lengths
    from tasks.seq2seq.request import GenerationRequest

    search = given({**options, "batch_tokens": own.batch_tokens})
    with option_names():
        bins = draw_lengths(
            output,
            own.model,
            corpus,
            split=split,
            metric=metric,
            width=width,
            device=own.device,
            request=GenerationRequest.of(**search),
        )
    rows = table([(b.label, b.sentences, f"{b.score:.2f}") for b in bins])
    print_results(f"{rows}{output}\n")


@click.command()
@click.argument("run", metavar="RUN", type=PATH)
@picture_option("confusion")
def confusion(run: Path, output: Path) -> None:
    """Draw the confusion matrix of a classifier.

    RUN is the folder of a classifier or of its report, or the output of `evaluate --json`.

    \b
        plot confusion runs/topics
        plot confusion report/report.json --output confusion.pdf
    """
    from tasks.plots.classifier_report import draw_confusion

    draw_confusion(output, run)
    print_results(f"{output}\n")


@click.command()
@click.argument("run", metavar="RUN", type=PATH)
@picture_option("reliability")
def reliability(run: Path, output: Path) -> None:
    """Draw how often a classifier is right, by the probability that it gives.

    RUN is a folder with report.json, which `evaluate classification --report FOLDER` writes, or
    that file.

    \b
        plot reliability runs/topics
    """
    from tasks.plots.classifier_report import draw_reliability

    draw_reliability(output, run)
    print_results(f"{output}\n")
