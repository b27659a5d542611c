"""``couplet``: the second line of a Chinese couplet for a first line."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tasks.commands import parameters
from tasks.commands.answering import search_and_answer
from tasks.commands.options import PATH, require_folder_of, take
from tasks.commands.output import print_results
from tasks.couplet.request import CoupletRequest, read_avoided
from tasks.pictures import PAPERS, check_picture

if TYPE_CHECKING:
    from tasks.couplet.answer import Couplet


@click.command()
@parameters.texts
@parameters.encoding
@parameters.models
@parameters.output
@parameters.search
@parameters.from_fields(CoupletRequest, "couplet")
@click.option(
    "--avoid", "avoid_file", type=PATH, metavar="FILE", help="Words that no answer has, one a line."
)
@click.option("--banner", is_flag=True, help="Print a banner (横批) as well, if one fits.")
@click.option("--vertical", is_flag=True, help="Print couplets downwards, the first line right.")
@click.option(
    "--picture",
    type=PATH,
    metavar="FILE",
    help="Draw the couplet on red paper, with a banner if one fits: .png, .svg or .pdf.",
)
@click.option(
    "--paper",
    type=click.Choice([*PAPERS]),
    default="fit",
    show_default=True,
    help="The paper of --picture; fit is as large as the couplet.",
)
@click.option("--check", is_flag=True, help="Check a pair: TEXT is a first and a second line.")
def couplet(**options: Any) -> None:
    """Answer each TEXT, the first line of a Chinese couplet, with a second line.

    Without TEXT, or with "-", every line of standard input is a text. The results are printed one
    per line, in the order of the input; an empty line stays empty. An input line without a Chinese
    character is refused: its result is empty, and the exit code is 1 at the end.
    With --n-best N, each text has up to N lines: its number (from 1), the score and the answer,
    separated by tabs.

    With --candidates N, the N lines differ clearly. Each has its own number behind that of the
    text, and ends with the rules that it breaks, or with ✓. They are drawn at random and ranked by
    more than the probability of the answer: by how rare their characters are, and by the
    probability of TEXT if it were the answer. The options of a search do not combine with it.

    On a terminal, the first line stands above its answer, and the banner below.

    The shipped model prints the best candidate unless you ask for a search: --beam 5 prints the
    most probable answer it finds, and takes a tenth of the time.

    --check reports every rule on a pair of your own, and the rhyme book, without a model.

    \b
        couplet 晚风摇树树还挺
        couplet --candidates 5 晚风摇树树还挺
        couplet --keep 春？？？？？？ 晚风摇树树还挺
        couplet --banner --vertical --picture couplet.png 春风送暖千山秀
        couplet --check 烟锁池塘柳 炮镇海城楼
    """
    if options.pop("check"):
        _print_check(options)
        return
    layout, is_backward = take(Layout, options), bool(options["backward"])
    _check_layout(options, layout)
    if (file := options.pop("avoid_file")) is not None:
        options["avoid"] = read_avoided(file)
    has_rules, is_one = options["candidates"] is not None, len(options["texts"]) == 1
    is_one &= options["texts"] != ("-",)
    finished = partial(_finished, layout=layout, is_backward=is_backward)
    is_read = options["output_path"] is None and is_terminal() and not layout.vertical

    def lines_for(line: str, found: "Couplet") -> list[str]:
        """Returns the answer as lines, and draws it."""
        if not found.second:  # an empty line, or one that is refused
            return [""]
        pair, banner = finished(line, found)
        if layout.vertical:
            from tasks.couplet.layout import vertical

            return [*vertical(*pair, banner).splitlines(), ""]
        rules = [_faults(found)] if has_rules else []
        return ["\t".join([found.second, *([banner or ""] if layout.banner else []), *rules])]

    def pair_for(line: str, found: "Couplet") -> list[str]:
        """Returns the couplet as one reads it; of several answers, each with a number."""
        if not found.second:
            return [""]
        if has_rules or options["n_best"] is not None:
            rows = ["".join(line.split())]
            for number, each in enumerate(found.hypotheses, start=1):
                _, banner = finished(line, each)
                notes = [f"横批：{banner}"] * bool(banner) + [_faults(each)] * has_rules
                rows.append("  ".join([f"{number:>3}  {each.second}", *notes]))
        else:
            pair, banner = finished(line, found)
            rows = [*pair, *([f"横批：{banner}"] if banner else [])]
        return rows if is_one else [*rows, ""]

    search_and_answer("couplet", lines_for, options, whole=pair_for if is_read else None)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a couplet is shown."""

    banner: bool
    vertical: bool
    picture: Path | None
    paper: str


def is_terminal() -> bool:
    """Returns whether a person reads the results."""
    return sys.stdout.isatty()


def _check_layout(options: dict[str, Any], layout: Layout) -> None:
    """Refuses a layout that the output cannot have."""
    names = ("banner", "vertical", "picture")
    asked = next((name for name in names if getattr(layout, name)), None)
    if asked is not None and options["is_json"]:
        raise click.UsageError(f"--{asked} is about text: leave out --json.")
    if (layout.vertical or layout.picture) and (options["candidates"] or options["n_best"]):
        raise click.UsageError(f"--{asked} shows one answer: leave out --candidates and --n-best.")
    if layout.picture is None and layout.paper != "fit":
        raise click.UsageError("--paper is for --picture.")
    if layout.picture is not None:
        if len(options["texts"]) != 1 or options["texts"] == ("-",):
            raise click.UsageError("--picture draws one couplet: give one text.")
        check_picture(layout.picture)
        require_folder_of(layout.picture, "--picture")


def _finished(
    line: str, found: "Couplet", *, layout: Layout, is_backward: bool
) -> tuple[tuple[str, str], str | None]:
    """Returns the first and the second line, and the banner; reports faults, and draws them."""
    from core.progress import log
    from tasks.couplet.layout import banner as banner_of
    from tasks.couplet.layout import draw_couplet

    given = "".join(line.split())
    pair = (found.second, given) if is_backward else (given, found.second)
    fitting = banner_of(*pair) if layout.banner or layout.picture else None
    banner = fitting if layout.banner else None
    for note in (found.note, "no banner fits" if layout.banner and banner is None else ""):
        if note:
            log(f"{' / '.join(pair)}: {note}")
    if layout.picture is not None:
        draw_couplet(layout.picture, *pair, fitting, paper=layout.paper)
    return pair, banner


def _faults(couplet: "Couplet") -> str:
    """Returns the rules that a couplet breaks, or a tick."""
    return " ".join(f"✗{rule}" for rule in couplet.broken) or "✓"


def _print_check(options: dict[str, Any]) -> None:
    """Prints what breaks each broken rule of a pair, the other rules, and the rhyme book."""
    from core.errors import TextError, shown
    from tasks.couplet.rules import RULES, broken
    from tasks.couplet.script import simplified
    from tasks.couplet.tones import BOOKS, LEVEL, has_entering_tone, is_chinese, tones
    from tasks.streaming.lines import as_json

    if len(options["texts"]) != 2:
        raise click.UsageError("--check takes two texts: a first line and a second line.")
    context = click.get_current_context()
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if is_given and option.name not in ("check", "texts", "rhyme", "is_json"):
            raise click.UsageError(f"--check prints the rules alone: leave out {option.opts[0]}.")
    first, second = ("".join(text.split()) for text in options["texts"])
    for line in (first, second):
        if not any(map(is_chinese, line)):
            raise TextError(f"{shown(line)} has no Chinese character: it is no line of a couplet")
    rhyme, pair = options["rhyme"] or "modern", (simplified(first), simplified(second))
    found = broken(*pair, rhyme)
    if options["is_json"]:
        rules = {rule: rule not in found for rule in RULES}
        record = {"second": second, "rules": rules, "broken": found, "rhyme_book": BOOKS[rhyme]}
        print_results(f"{as_json(first, record)}\n")
        return
    lines = [f"✗ {rule}: {what}" for rule, what in found.items()]
    lines.append(f"✓ {', '.join(rule for rule in RULES if rule not in found)}")
    either = (c for c in "".join(pair) if has_entering_tone(c) and LEVEL in tones(c, rhyme))
    lines.append(": ".join(["rhyme book", BOOKS[rhyme], *filter(None, [" ".join(either)])]))
    print_results("".join(f"{line}\n" for line in lines))
