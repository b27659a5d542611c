"""``export``: a translation model in the format of another engine."""

from pathlib import Path

import click

from tasks.commands import parameters
from tasks.commands.options import PATH
from tasks.commands.output import print_results


@click.command()
@parameters.model
@click.option("--out", type=PATH, required=True, metavar="FOLDER", help="The new folder.")
@click.option(
    "--format",
    "_format",
    type=click.Choice(["ctranslate2"]),
    default="ctranslate2",
    show_default=True,
)
@click.option(
    "--quantization",
    type=click.Choice(["float32", "float16", "int16", "int8"]),
    default="float32",
    show_default=True,
    help="The data type of the weights.",
)
def export(model: Path | None, out: Path, _format: str, quantization: str) -> None:
    """Write a translation model in the format of another engine."""
    from tasks.runs.checkpoint_folder import model_folder
    from tasks.translation.export import to_ctranslate2
    from tasks.translation.predict import Translator

    folder = model_folder("translation", model)
    translator = Translator.load(folder, device="cpu")
    to_ctranslate2(translator, folder, out, quantization=quantization)
    print_results(f"{out}\n")
