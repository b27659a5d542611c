#!/usr/bin/env python3
"""The command line of Transformer Suite: it parses, calls and prints.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 the work failed (one line on
stderr says why), 2 wrong usage, 130 interrupted. A reader of stdout that leaves early (``| head``)
has what it wanted: that is 0.

Nothing heavy is imported before it is needed, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from transformer_suite.core.config import override
from transformer_suite.core.distributed.world import world_from_environment
from transformer_suite.core.errors import ConfigError, UserError
from transformer_suite.tasks import registry
from transformer_suite.tasks.commands.console import (
    PATH,
    STDIO,
    Program,
    batch_option,
    given,
    group_of,
    length_options,
    machine_options,
    model_option,
    models_option,
    option_names,
    output_options,
    print_results,
    result_options,
    search_given,
    search_options,
    table,
    text_options,
    use_threads,
)
from transformer_suite.tasks.runs.checkpoint_folder import Folders
from transformer_suite.tasks.streaming import lines, pair_lines
from transformer_suite.tasks.streaming.streams import check_input, stream

if TYPE_CHECKING:
    from transformer_suite.data.fetching import CorpusReport

__version__ = "1.0.0"

task_argument = click.argument("task", type=click.Choice(registry.TASKS))
data_option = click.option(
    "--data", type=PATH, metavar="FOLDER", help="The corpus; else the one from `data fetch`."
)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """One Transformer, three applications: translation, classification, couplets.

    Under torchrun several processes share the lines of one --input: in translate, classify, couplet
    and score.

    \b
        torchrun --standalone --nproc-per-node 4 cli.py translate --input german.txt
    """


@main.command()
@text_options
@models_option
@output_options
@search_options
@length_options
def translate(**options: Any) -> None:
    """Translate each TEXT, from German into English with the model that ships.

    Without TEXT, or with "-", every line of standard input is a text. The results come one a line,
    in the order of the input; an empty line stays empty. "--" goes before a text that begins with a
    dash. With --n-best N a text gives up to N lines: its number, from 1, the score and the
    translation, tabs between them. A text is translated sentence by sentence, and what is said of
    lengths holds for each.

    \b
        translate "Ein Hund rennt." "Zwei Kinder lachen."
        translate --input german.txt --output english.txt
        translate --n-best 3 --diverse 0.5 "Ein Hund rennt."
        translate --sample --top-p 0.9 --seed 7 "Ein Hund rennt."
    """

    def load(model: Folders, device: str) -> Callable[..., Sequence[Any]]:
        from transformer_suite.tasks.translation.predict import Translator

        return Translator.load(model, device=device).translate_scored

    search_and_answer(load, lambda found: found.text, options)


@main.command()
@text_options
@model_option
@click.option("--top", type=click.IntRange(min=1), help="Show so many of the classes.")
def classify(top: int | None, **options: Any) -> None:
    """Say what each TEXT is about: the class, a tab, and its probability.

    Without TEXT, or with "-", every line of standard input is a text. With --top K there are K such
    pairs on the line, tabs between them. The results come in the order of the input; an empty line
    stays empty.

    \b
        classify "Stocks fell on Monday after the bank raised its rates."
        classify --top 3 --input headlines.txt
    """

    def load(model: Path | None, device: str) -> lines.Predict:
        from transformer_suite.tasks.classification.predict import Classifier

        classifier = Classifier.load(model, device=device)
        count = len(classifier.classes)
        if top is not None and top > count:
            raise ConfigError(f"--top must be from 1 to {count}, the number of classes, not {top}")
        return lines.unnumbered(classifier.classify_scored)

    def lines_of(found: Any) -> list[str]:
        best = islice(found.probabilities.items(), top or 1)
        return ["\t".join(f"{label}\t{probability:.4f}" for label, probability in best)]

    def record_of(found: Any) -> dict[str, Any]:
        best = dict(islice(found.probabilities.items(), top))
        return {**found.record(), "probabilities": best}

    answer(load, lines_of, record_of, **options)


@main.command()
@text_options
@models_option
@output_options
@search_options
def couplet(**options: Any) -> None:
    """Answer each TEXT, the first line of a Chinese couplet, with the second.

    Without TEXT, or with "-", every line of standard input is a text. The results come one a line,
    in the order of the input; an empty line stays empty. With --n-best N a text gives up to N
    lines: its number, from 1, the score and the answer, tabs between them.

    \b
        couplet 晚风摇树树还挺
        couplet --n-best 3 --prefix 秋 晚风摇树树还挺
    """

    def load(model: Folders, device: str) -> Callable[..., Sequence[Any]]:
        from transformer_suite.tasks.couplet.predict import CoupletWriter

        return CoupletWriter.load(model, device=device).answer_scored

    search_and_answer(load, lambda found: found.second, options)


@main.command()
@click.argument("task", type=click.Choice(registry.PAIR_TASKS))
@click.option("--src", "source_file", type=PATH, metavar="FILE", help="The sources, one a line.")
@click.option("--tgt", "target_file", type=PATH, metavar="FILE", help="Their targets.")
@click.option("--input", "input_file", type=PATH, help="Read both from one file, a tab between.")
@result_options
@models_option
def score(
    task: str,
    source_file: Path | None,
    target_file: Path | None,
    input_file: Path | None,
    is_json: bool,
    **options: Any,
) -> None:
    """Say how probable a model finds each target, given its source.

    Pairs come from two files, --src and --tgt, or as lines of a source, a tab and its target: from
    --input, or else from standard input. For each there is a line: the log-probability (natural)
    of the target, its tokens, the end counted as one, and the log-probability a token, tabs
    between; with --json that of every token too, and how many tokens the vocabulary does not know,
    which are rated as <unk>.

    Texts are rated whole. An empty target is rated by its end alone. A pair too long for the model
    has no log-probability: there is nothing between the tabs, and null in JSON.

    \b
        score translation --src german.txt --tgt english.txt
        score translation --input pairs.tsv | awk '$3 > -2'
    """
    if (source_file is None) != (target_file is None):
        raise click.UsageError("--src and --tgt go together.")
    if source_file and input_file:
        raise click.UsageError("pairs come from --src and --tgt or from --input, not from both.")

    def load(model: Folders, device: str) -> lines.Predict:
        return pair_lines.scoring(registry.load_scorer(task, model, device=device))

    def show(line: str, found: Any) -> list[str]:
        if not is_json:
            return [found.row()]
        source, target = pair_lines.pair_of(line)
        return [lines.json_line({"source": source, "target": target, **found.record()})]

    if source_file and target_file:
        open_pairs = partial(pair_lines.open_parallel, source_file, target_file)
    else:
        path = None if input_file == STDIO else input_file
        check_input(is_file=path is not None)
        open_pairs = partial(pair_lines.open_table, path)
    stream(open_pairs, load, show, **options)


@main.command()
@task_argument
@click.option("--preset", metavar="NAME", help="tiny, default or paper.")
@click.option("--config", "config_file", type=PATH, metavar="FILE", help="A TOML file.")
@data_option
@click.option("--out", type=PATH, metavar="FOLDER", help="The new checkpoint; else runs/TASK.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--seed", type=int, help="Fixes the run; short for --set train.seed=N.")
@click.option("--src", metavar="LANG", help="Translation: the source files' extension; else de.")
@click.option("--tgt", metavar="LANG", help="Translation: the target files' extension; else en.")
@machine_options
@click.option(
    "--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE", help="May be repeated."
)
def train(
    task: str,
    preset: str | None,
    config_file: Path | None,
    data: Path | None,
    out: Path | None,
    resume: bool,
    seed: int | None,
    src: str | None,
    tgt: str | None,
    device: str,
    threads: int | None,
    assignments: tuple[str, ...],
) -> None:
    """Train a model on a corpus and leave a checkpoint folder.

    The configuration is a preset, then --config, then each --set. With --resume it is that of the
    run that goes on. The README names what most runs set, core/config.py everything. Started by
    torchrun, several processes train one model, each on its share of every batch.

    \b
        train translation --data corpus/ --src fr --tgt en
        train couplet --preset tiny --data corpus/ --set train.epochs=4
        train translation --set train.r_drop=5 --set train.ema=0.999
        torchrun --nproc-per-node gpu cli.py train translation --data corpus/
    """
    if (src or tgt) and task != "translation":
        raise click.UsageError(f"{task} has no --src and no --tgt.")
    out = out or Path("runs") / task
    shorthands = given(**{"train.seed": seed, "data.src": src, "data.tgt": tgt})
    assignments += tuple(f"{name}={value}" for name, value in shorthands.items())
    if resume and (preset or config_file):
        raise click.UsageError(
            f"--resume goes on with the configuration in {out}: leave out --preset and --config."
        )
    world = world_from_environment()
    with group_of(world, device) as (group, device):
        if resume:
            config = saved_config(task, out, assignments)
        else:
            config = registry.make_config(
                task, preset=preset or "default", config_file=config_file, assignments=assignments
            )
        corpus = corpus_for(task, data)
        from transformer_suite.core.device import choose_device
        from transformer_suite.tasks.runs import run
        from transformer_suite.tasks.runs.checkpoint_folder import headline
        from transformer_suite.tasks.runs.process import configure_process

        configure_process(threads=threads, resumed=out if resume else None)
        metrics = run.train(
            task,
            config,
            data=corpus,
            out=out,
            device=choose_device(device),
            resume=resume,
            group=group,
        )
        if world is None or world.is_main:
            print_results(f"{out}: {headline(metrics)}\n")


@main.command()
@task_argument
@models_option
@data_option
@click.option("--split", metavar="NAME", help="A part of the corpus; else the test split.")
@machine_options
@batch_option
@search_options
@length_options
@click.option("--json", "is_json", is_flag=True, help="The report as JSON.")
def evaluate(
    task: str,
    model: Folders,
    data: Path | None,
    split: str | None,
    device: str,
    threads: int | None,
    batch_tokens: int | None,
    is_json: bool,
    **options: Any,
) -> None:
    """Measure a model on a split of a corpus."""
    search = search_given(options)
    if task == "classification" and (search or isinstance(model, tuple)):
        raise click.UsageError("classification has one --model, and nothing to search for.")
    corpus = corpus_for(task, data)
    use_threads(threads)
    measure = registry.module(task, "evaluate")
    settings = {**search, **given(batch_tokens=batch_tokens)}
    with option_names():
        report = measure.run(model, corpus, split=split, device=device, **settings)
    show = partial(json.dumps, ensure_ascii=False, indent=2) if is_json else measure.as_table
    print_results(f"{show(report)}\n")


@main.command()
@click.argument("checkpoints", metavar="CHECKPOINT...", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, metavar="FOLDER", help="The new checkpoint.")
@click.option("--best", type=click.IntRange(min=2), metavar="K", help="Of a run: the K best.")
@click.option(
    "--last", type=click.IntRange(min=2), metavar="K", help="Of a run: the last K it has kept."
)
def average(checkpoints: tuple[Path, ...], out: Path, best: int | None, last: int | None) -> None:
    """Average the weights of several checkpoints into a new one.

    A CHECKPOINT is a folder, or the weights of one epoch that a run has kept. With --best or --last
    it is the one folder of a run, which keeps as many of its best epochs as train.average says. All
    must be of one task, configuration and vocabulary.

    \b
        average runs/a runs/b --out runs/mean
        average runs/a/training/epoch-003.safetensors runs/a --out runs/mean
        average runs/a --best 3 --out runs/mean
    """
    if best and last:
        raise click.UsageError("--best and --last exclude each other.")
    if (best or last) and len(checkpoints) > 1:
        raise click.UsageError("--best and --last take the epochs of one run.")
    from transformer_suite.tasks.runs import averaging

    if best:
        checkpoints = tuple(averaging.best_epochs(checkpoints[0], best))
    elif last:
        checkpoints = tuple(averaging.last_epochs(checkpoints[0], last))
    averaging.average(checkpoints, out)
    names = ", ".join(map(str, checkpoints))
    print_results(f"{out}: the mean of {names}; not measured\n")


@main.command()
@model_option
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
    help="How the weights are stored.",
)
def export(model: Path | None, out: Path, _format: str, quantization: str) -> None:
    """Write a translation model in the format of another engine."""
    from transformer_suite.tasks.translation.export import to_ctranslate2

    to_ctranslate2(model, out, quantization=quantization)
    print_results(f"{out}\n")


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 for everyone.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--translation", type=PATH, metavar="FOLDER", help="Another translation model.")
@click.option("--classification", type=PATH, metavar="FOLDER", help="Another classifier.")
@click.option("--couplet", type=PATH, metavar="FOLDER", help="Another couplet model.")
@machine_options
def serve(host: str, port: int, device: str, threads: int | None, **models: Path | None) -> None:
    """Offer the three applications on a web page, and as JSON at /api/TASK."""
    use_threads(threads)
    if find_spec("flask") is None or find_spec("waitress") is None:
        raise UserError("the web server is not installed: pip install 'transformer-suite[web]'")
    from transformer_suite.tasks.web import server

    click.echo(f"http://{host}:{port}/  (Ctrl-C ends it)", err=True)
    server.serve(models, host=host, port=port, device=device)


@main.group()
def plot() -> None:
    """Draw what was measured."""


@plot.command()
@click.argument("runs", metavar="RUN...", type=PATH, nargs=-1, required=True)
@click.option(
    "--output",
    type=PATH,
    default=Path("history.png"),
    show_default=True,
    metavar="FILE",
    help="The picture: .png, .svg or .pdf.",
)
def history(runs: tuple[Path, ...], output: Path) -> None:
    """Draw the training curves of one or several runs in one picture.

    A RUN is the folder of a run or a checkpoint, or its history.csv: losses, the task's metrics,
    learning rate, gradient norm, speed and padding by epoch, a colour for each run.

    \b
        plot history runs/translation
        plot history runs/a runs/b --output compared.svg
    """
    from transformer_suite.tasks.runs.history import draw_histories

    draw_histories(runs, output)
    print_results(f"{output}\n")


@main.command()
@click.option("--json", "is_json", is_flag=True, help="One JSON object a line.")
def models(is_json: bool) -> None:
    """List the models that ship."""
    from transformer_suite.tasks.runs.checkpoint_folder import shipped_models

    found = [about_model(folder) for folder in shipped_models()]
    if is_json:
        print_results("".join(f"{json.dumps(about, ensure_ascii=False)}\n" for about in found))
        return
    for about in found:
        about["parameters"] = about["parameters"] and f"{about['parameters']:,}"
        about["size"] = f"{about['size'] / 1e6:.1f} MB"
    names = ("task", "parameters", "size", "trained", "headline", "folder")
    print_results(table([names, *([about[name] or "?" for name in names] for about in found)]))


@main.group()
def data() -> None:
    """Get the corpora and check them."""


@data.command("list")
def list_corpora() -> None:
    """List the corpora this program knows, and whether they are here."""
    from transformer_suite.data.corpora import CORPORA, corpus_folder

    for corpus in CORPORA.values():
        folder = corpus_folder(corpus.name)
        is_here = any((folder / file.name).is_file() for file in corpus.files)
        facts = {
            "task": corpus.task,
            "size": "not known" if corpus.size is None else f"{corpus.size / 1e6:.1f} MB",
            "license": corpus.license,
            "address": corpus.homepage,
            "citation": corpus.citation,
            "remark": corpus.remark,
            "folder": f"{folder} ({'here' if is_here else 'not here'})",
        }
        block = "".join(f"    {name:<10}{fact}\n" for name, fact in facts.items() if fact)
        print_results(f"{corpus.name}: {corpus.title}\n{block}")


@data.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Download the corpus NAME; go on with a download that broke off."""
    from transformer_suite.data import fetching

    show_report(fetching.fetch(name, show_progress=True))


@data.command("import")
@click.argument("name")
@click.option(
    "--from", "source", type=PATH, required=True, metavar="FOLDER", help="Where its files are."
)
def import_corpus(name: str, source: Path) -> None:
    """Copy the corpus NAME from files that are already here."""
    from transformer_suite.data import fetching

    show_report(fetching.import_from(name, source))


@data.command()
@click.argument("name")
def verify(name: str) -> None:
    """Check that the corpus NAME is what it was."""
    from transformer_suite.data import fetching

    show_report(fetching.verify(name))


def search_and_answer(
    load: Callable[[Folders, str], Callable[..., Sequence[Any]]],
    text_of: Callable[[Any], str],
    options: dict[str, Any],
) -> None:
    """:func:`answer` for the commands that search: with their options, and n-best lists."""
    search = search_given(options)

    def predictor(model: Folders, device: str) -> lines.Predict:
        search_texts = partial(load(model, device), **search)
        search_texts([])  # options that cannot be used are refused before the first text is read

        def predict(
            texts: Sequence[str], *, numbers: Sequence[int], **rest: Any
        ) -> Sequence[tuple[int, Any]]:
            found = search_texts(texts, numbers=numbers, **rest)
            return [*zip(numbers, found, strict=True)]

        return predict

    def lines_of(numbered: tuple[int, Any]) -> list[str]:
        number, found = numbered
        if "n_best" not in search:
            return [text_of(found)]
        return [f"{number + 1}\t{one.score:.4f}\t{text_of(one)}" for one in found.hypotheses]

    def record_of(numbered: tuple[int, Any]) -> dict[str, Any]:
        _, found = numbered
        if "n_best" not in search:
            return found.record()
        return {**found.record(), "hypotheses": [one.record() for one in found.hypotheses]}

    with option_names():
        answer(predictor, lines_of, record_of, **options)


def answer(
    load: Callable[[Any, str], lines.Predict],
    lines_of: Callable[[Any], list[str]],
    record_of: Callable[[Any], dict[str, Any]],
    *,
    texts: tuple[str, ...],
    input_file: Path | None,
    is_json: bool,
    **options: Any,
) -> None:
    """Sends the texts that the options name through a predictor, and the results where they say."""
    if texts and input_file is not None:
        raise click.UsageError("texts come from the command line or from --input, not from both.")

    def show(text: str, found: Any) -> list[str]:
        return [lines.as_json(text, record_of(found))] if is_json else lines_of(found)

    given_texts = () if texts == (str(STDIO),) else texts
    path = None if input_file == STDIO else input_file
    check_input(is_file=path is not None)
    stream(partial(lines.open_texts, given_texts, path), load, show, **options)


def corpus_for(task: str, folder: Path | None) -> Path:
    """``folder``, or where the task's corpus in the catalogue is kept."""
    from transformer_suite.data.corpora import corpus_folder

    name = registry.DEFAULT_CORPUS[task]
    chosen = folder or corpus_folder(name)
    if folder is None and not chosen.is_dir():
        raise UserError(
            f"{chosen}: the corpus {name} is not here: get it with `cli.py data fetch {name}`, or "
            f"from copies with `cli.py data import {name} --from DIR`, or name a folder with --data"
        )
    return chosen


def saved_config(task: str, folder: Path, assignments: tuple[str, ...]) -> Any:
    """The configuration of the run in ``folder``, with ``assignments`` applied."""
    from transformer_suite.tasks.runs.checkpoint_folder import check_begun, read_config

    check_begun(folder)
    return override(read_config(folder, task, registry.config_class(task)), assignments)


def about_model(folder: Path) -> dict[str, Any]:
    """What the list of models says of one."""
    from transformer_suite.tasks.runs.checkpoint_folder import describe, headline, read_metrics

    metrics = read_metrics(folder)
    return {
        "task": describe(folder)["task"],
        "parameters": metrics.get("parameters"),
        "size": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "trained": metrics.get("trained"),
        "headline": headline(metrics),
        "folder": str(folder),
    }


def show_report(report: CorpusReport) -> None:
    """Prints what became of a corpus.

    Raises:
        UserError: not all of it is as it should be.
    """
    rows = [("ok" if file.is_ok else "WRONG", file.name, file.note) for file in report.files]
    print_results(f"{report.corpus.title}\n{report.folder}\n{table(rows)}")
    wrong = sum(not file.is_ok for file in report.files)
    if wrong:
        raise UserError(f"{report.folder}: {wrong} of {len(rows)} files are not as they should be")


if __name__ == "__main__":
    main()
