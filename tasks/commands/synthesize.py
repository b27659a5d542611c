"""``synthesize``: text in one language becomes a parallel corpus."""

from pathlib import Path
from typing import Any

import click

from tasks.commands import parameters
from tasks.commands.options import (
    PATH,
    ModelOptions,
    layout_of,
    option_names,
    take,
    take_given,
    use_threads,
)
from tasks.commands.output import print_results


@click.command()
@click.option(
    "--input",
    "input_path",
    type=PATH,
    required=True,
    metavar="FILE",
    help="The text: a line a sentence, or the rows of a table or a TMX file.",
)
@click.option(
    "--text",
    "column",
    metavar="NAME",
    help="The column or the language of the text in a table or a TMX file; else the model's.",
)
@parameters.layout
@click.option("--out", type=PATH, required=True, metavar="FOLDER", help="The corpus to make.")
@click.option(
    "--length-ratio",
    type=click.FloatRange(1, 100),
    default=2.0,
    show_default=True,
    help="Leave out pairs where one side has more than this many times the tokens of the other.",
)
@click.option(
    "--n-best",
    type=click.IntRange(1),
    metavar="N",
    help="Make N pairs of each line: the best translations, or with --sample N random ones.",
)
@parameters.models
@parameters.search
@parameters.length
@parameters.engine
@parameters.machine
@parameters.batch
def synthesize(
    input_path: Path, out: Path, column: str | None, length_ratio: float, **options: Any
) -> None:
    """Translate a text and make a training corpus of it.

    The folder gets train.SRC with the given text and train.TGT with its translations, where SRC and
    TGT are the languages of the model. The text may become either side of a later training: data of
    the model that is trained are found by language. synthesis.json says how the corpus was made and
    how many lines were left out: empty or too long ones, and pairs of very different length.

    \b
        synthesize --model runs/en-de --input captions.en --out corpora/bt --beam 1
        synthesize --model runs/en-de --input captions.en --out corpora/bt2 --sample --top-k 10
        synthesize --input memory.tmx --out corpora/more
        synthesize --model runs/a --model runs/b --input captions.de --out corpora/distilled
        train translation --set 'data.extra=[{path="corpora/bt", weight=0.5, tag="bt"}]'
    """
    model_options, layout = take(ModelOptions, options), layout_of(options)
    how_to_load = take_given(options, "engine", "int8")
    use_threads(model_options.threads)
    from tasks.runs.checkpoint_folder import model_folders
    from tasks.seq2seq.request import GenerationRequest
    from tasks.translation.predict import Translator
    from tasks.translation.synthesis import synthesize as make_corpus

    with option_names():
        made = make_corpus(
            input_path,
            out,
            model_folders("translation", model_options.model),
            Translator.load(model_options.model, device=model_options.device, **how_to_load),
            GenerationRequest.of(**options, batch_tokens=model_options.batch_tokens),
            length_ratio=length_ratio,
            column=column,
            layout=layout,
        )
    counts = made["counts"]
    others = (f"{counts[name]:,} {name.replace('_', ' ')}" for name in _LEFT_OUT if name in counts)
    left_out = ", ".join(others) or "none"
    print_results(
        f"{out}: {counts['pairs']:,} pairs of {counts['lines']:,} lines; left out: {left_out}\n"
    )


_LEFT_OUT = ("empty", "too_long", "length_ratio")
