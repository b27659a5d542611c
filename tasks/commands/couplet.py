"""``couplet``: the second line of a Chinese couplet for a first line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tasks.commands.answering import search_and_answer
from tasks.commands.options import (
    PATH,
    models_option,
    options_from,
    output_options,
    search_options,
    text_options,
)
from tasks.commands.output import print_results
from tasks.couplet.request import CoupletRequest, read_avoided

if TYPE_CHECKING:
    from tasks.couplet.answer import Couplet


@click.command()
@text_options
@models_option
@output_options
@search_options
@options_from(CoupletRequest, "couplet")
@click.option(
    "--avoid", "avoid_file", type=PATH, metavar="FILE", help="Words that no answer has, one a line."
)
@click.option("--backward", is_flag=True, help="TEXT is a second line; answer with a first line.")
@click.option("--banner", is_flag=True, help="Print a banner (横批) as well, if one fits.")
@click.option("--vertical", is_flag=True, help="Print couplets downwards, the first line right.")
@click.option("--picture", type=PATH, metavar="FILE", help="Draw the couplet on red paper (PNG).")
@click.option("--check", is_flag=True, help="Check a pair: TEXT is a first and a second line.")
def couplet(**options: Any) -> None:
    """Answer each TEXT, the first line of a Chinese couplet, with a second line.

    Without TEXT, or with "-", every line of standard input is a text. The results are printed one
    per line, in the order of the input; an empty line stays empty. An input line without a Chinese
    character is refused: its result is empty, and the exit code is 1 at the end.
    With --n-best N, each text has up to N lines: its number (from 1), the score and the answer,
    separated by tabs.

    With --candidates N, the N lines differ clearly, and each ends with its rules, ✓ where one is
    kept. They are drawn at random and ranked by more than the probability of the answer: by how
    rare their characters are, and by the probability of TEXT if it were the answer. The options of
    a search do not combine with it.

    The shipped model prints the best candidate unless you ask for a search: --beam 5 prints the
    most probable answer it finds, and takes a sixth of the time.

    --check reports every rule on a pair of your own, without a model.

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
    layout = {name: options.pop(name) for name in ("banner", "vertical", "picture")}
    backward = options.pop("backward")
    _check_layout(options, layout)
    if (file := options.pop("avoid_file")) is not None:
        options["avoid"] = read_avoided(file)
    has_rules = options["candidates"] is not None

    def lines_for(line: str, found: Couplet) -> list[str]:
        return _shown(line, found, has_rules=has_rules, is_backward=backward, **layout)

    search_and_answer("couplet", lines_for, options, is_backward=backward)


def _check_layout(options: dict[str, Any], layout: dict[str, Any]) -> None:
    """Refuses a layout that the output cannot have."""
    asked = next((name for name, value in layout.items() if value), None)
    if asked is not None and options["is_json"]:
        raise click.UsageError(f"--{asked} is about text: leave out --json.")
    if (layout["vertical"] or layout["picture"]) and (options["candidates"] or options["n_best"]):
        raise click.UsageError(f"--{asked} shows one answer: leave out --candidates and --n-best.")
    if layout["picture"] is not None:
        if len(options["texts"]) != 1 or options["texts"] == ("-",):
            raise click.UsageError("--picture draws one couplet: give one text.")
        from tasks.pictures import check_picture

        check_picture(layout["picture"])


def _shown(
    line: str,
    found: Couplet,
    *,
    has_rules: bool,
    is_backward: bool,
    banner: bool,
    vertical: bool,
    picture: Path | None,
) -> list[str]:
    """Returns the answer as lines, and draws it."""
    if found.note:
        from core.progress import log

        log(f"{found.second}: {found.note}")
    given = "".join(line.split())
    if not found.second:  # an empty line, or one that is refused
        return [""]
    pair = (found.second, given) if is_backward else (given, found.second)
    top = None
    if banner:
        from tasks.couplet.layout import banner as banner_of

        if (top := banner_of(*pair)) is None:
            from core.progress import log

            log(f"{found.second}: no banner fits")
    if picture is not None:
        from tasks.couplet.layout import draw_couplet

        draw_couplet(picture, *pair, top)
    if vertical:
        from tasks.couplet.layout import vertical as vertical_of

        return [*vertical_of(*pair, top).splitlines(), ""]
    rules = [_ticks(found.rules)] if has_rules else []
    return ["\t".join([found.second, *([top or ""] if banner else []), *rules])]


def _ticks(rules: dict[str, bool]) -> str:
    return " ".join(f"{'✓' if is_kept else '✗'}{rule}" for rule, is_kept in rules.items())


def _print_check(options: dict[str, Any]) -> None:
    """Prints whether a pair keeps each rule, and what breaks it."""
    from core.errors import TextError, shown
    from tasks.couplet.rules import RULES, broken
    from tasks.couplet.script import simplified
    from tasks.couplet.tones import is_chinese
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
    found = broken(simplified(first), simplified(second), options["rhyme"] or "modern")
    if options["is_json"]:
        rules = {rule: rule not in found for rule in RULES}
        print_results(f"{as_json(first, {'second': second, 'rules': rules, 'broken': found})}\n")
        return
    lines = [f"✗ {rule}: {found[rule]}" if rule in found else f"✓ {rule}" for rule in RULES]
    print_results("".join(f"{line}\n" for line in lines))
