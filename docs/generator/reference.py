"""The reference of the guide, made from the code: Python names, commands, configuration options."""

from __future__ import annotations

import dataclasses
import html
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from typing import Any

import click

import transformer_suite
from core.config import options_of
from tasks.commands.main import main
from tasks.task import TASKS, task_named

_ROLE = re.compile(r":\w+:`~?\.?([^`]+)`")
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
_ITEM = re.compile(r"^ {4}(\S[^:]*): (.*)$")


def with_reference(markdown: str) -> str:
    """Returns a page with its directives ``::: python`` and the like replaced by the reference."""
    makers: dict[str, Callable[[], Iterator[str]]] = {
        "python": python,
        "commands": commands,
        "configuration": configuration,
    }
    return re.sub(
        r"^::: (python|commands|configuration)$",
        lambda match: "\n\n".join(makers[match[1]]()),
        markdown,
        flags=re.MULTILINE,
    )


# Python


def python() -> Iterator[str]:
    """Yields the public names with their signatures, docstrings and public methods."""
    for name in transformer_suite.__all__:
        value = getattr(transformer_suite, name)
        yield f"## {name}"
        if not (inspect.isclass(value) and issubclass(value, Exception)):
            yield _signature(name, value)
        yield docstring(value)
        if inspect.isclass(value):
            for method_name, method in _methods(value):
                yield f"### {name}.{method_name} {{ #{name.lower()}.{method_name} }}"
                if callable(method):
                    yield _signature(method_name, method)
                yield docstring(method)


def _signature(name: str, value: Any) -> str:
    signature = inspect.signature(value)
    if inspect.isfunction(value):
        kept = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
        signature = signature.replace(parameters=kept)
    text = _plain(f"{name}{signature}")
    if len(text) > 88 and signature.parameters:
        rows = _plain(",\n".join(f"    {p}" for p in _rows(signature)))
        returned = text.rpartition(")")[2]
        text = f"{name}(\n{rows},\n){returned}"
    return f"```python\n{text}\n```"


def _plain(signature: str) -> str:
    """Returns the text of a signature without the quotes and the modules of types."""
    text = re.sub(r"(= '[^']*')|['~]", lambda match: match[1] or "", signature)
    text = re.sub(r"\b(?!torch.d)([a-z_]\w*\.)+(?=[A-Za-z])", "", text)
    return re.sub(r"<function (\w+) at \w+>", r"\1", text).replace("<factory>", "...")


def _rows(signature: inspect.Signature) -> Iterator[str]:
    is_marked = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_marked:
            is_marked = True
            yield "*"
        is_marked = is_marked or parameter.kind is parameter.VAR_POSITIONAL
        yield str(parameter)


def _methods(value: type) -> Iterator[tuple[str, Any]]:
    """Yields the documented public methods and properties that a class itself defines."""
    inherited = [
        base for base in value.__mro__ if base.__module__.startswith(("core.", "data.", "tasks."))
    ]
    names: dict[str, Any] = {}
    for base in reversed(inherited):
        names |= vars(base)
    for name, method in names.items():
        if isinstance(method, classmethod | staticmethod):
            method = method.__func__
        is_documented = bool(getattr(method, "__doc__", None))
        is_member = inspect.isfunction(method) or isinstance(method, property)
        is_field = name in getattr(value, "__dataclass_fields__", ())
        if is_member and is_documented and not is_field and not name.startswith("_"):
            yield name, method


def docstring(value: Any) -> str:
    """Returns the docstring of ``value`` as Markdown."""
    text = inspect.getdoc(value) or ""
    return as_markdown(text)


def as_markdown(text: str) -> str:
    """Returns a docstring of this project as Markdown: its sections become lists."""
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match[1]
            lines += [f"**{section}**", ""]
        elif section and line and not line.startswith("    "):
            section = ""
            lines.append(line)
        elif section in ("", "Returns", "Yields"):
            lines.append(line.removeprefix("    ") if section else line)
        elif match := _ITEM.match(line):
            lines.append(f"- `{match[1]}`: {match[2]}")
        else:
            lines.append(line.strip() and f"  {line.strip()}")
    return _inline("\n".join(lines))


def _inline(text: str) -> str:
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


# Commands


def commands() -> Iterator[str]:
    """Yields every command with its arguments and options."""
    context = click.Context(main, info_name="cli.py")
    yield from _command(main, context, "##")


def _command(command: click.Command, context: click.Context, heading: str) -> Iterator[str]:
    if context.parent is not None:
        yield f"{heading} {' '.join(context.command_path.split()[1:])}"
        yield from _help(command)
        yield f"```text\n{' '.join(command.get_usage(context).split()[1:])}\n```"
        rows = [row for parameter in command.params for row in _option(parameter, context)]
        if rows:
            yield "\n".join(["| option | purpose |", "|---|---|", *rows])
    if isinstance(command, click.Group):
        deeper = heading if context.parent is None else f"{heading}#"
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, click.Context(below, info_name=name, parent=context), deeper)


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            example = textwrap.dedent(paragraph.removeprefix("\b").strip("\n"))
            yield f"```text\n{example}\n```"
        else:
            yield html.escape(" ".join(paragraph.split()), quote=False)


def _option(parameter: click.Parameter, context: click.Context) -> Iterator[str]:
    record = parameter.get_help_record(context)
    if record is not None and isinstance(parameter, click.Option):
        names, purpose = (_cell(text) for text in record)
        yield f"| `{names.replace(' RANGE', '')}`{{ .option }} | {purpose} |"


def _cell(text: str) -> str:
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")


# Configuration


def configuration() -> Iterator[str]:
    """Yields the options of each section of each task, with their values in the presets."""
    for task in TASKS:
        presets = {name: make() for name, make in task_named(task).presets.items()}
        yield f"## {task.capitalize()}"
        for field in dataclasses.fields(presets["default"]):
            sections = {name: getattr(preset, field.name) for name, preset in presets.items()}
            kind = type(sections["default"])
            yield f"### {task}: {field.name} {{ #{task}-{field.name} }}"
            yield _summary(kind)
            yield _table(field.name, kind, sections)


def _summary(kind: type) -> str:
    """Returns the docstring of a dataclass up to its first section."""
    text = inspect.getdoc(kind) or ""
    return _inline(re.split(r"\n\n\w+:\n", text)[0])


def _table(section: str, kind: type, presets: dict[str, Any]) -> str:
    """Returns the options of a section: type, value in the default preset, meaning.

    Values of the other presets are given where they differ.
    """
    described = _descriptions(kind)
    for name, option in options_of(kind).items():
        described[name] = option.help + (f" Values: {option.range}." if option.most else "")
    types_of = typing.get_type_hints(kind)
    rows = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(kind):
        values = {name: _shown(getattr(preset, field.name)) for name, preset in presets.items()}
        default = values.pop("default")
        others = [f"{name} `{value}`" for name, value in values.items() if value != default]
        cells = [
            f"`{section}.{field.name}`{{ .option }}",
            f"`{_type(types_of[field.name])}`",
            f"`{default}`",
            described[field.name] + (f" Presets: {', '.join(others)}." if others else ""),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _shown(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return "[" + ", ".join(map(str, value)) + "]"
        case _:
            return str(value)


def _type(hint: Any) -> str:
    name = hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
    return re.sub(r"[\w.]*\.(\w+)", r"\1", name).replace(" | ", " or ").replace("None", "none")


def _descriptions(kind: type) -> dict[str, str]:
    """Returns what the docstrings of a dataclass and its bases say about each option."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = inspect.getdoc(base) if base.__doc__ and dataclasses.is_dataclass(base) else None
        section = ""
        names: list[str] = []
        for line in (text or "").splitlines():
            if match := _SECTION.match(line):
                section = match[1]
            elif section in ("Args", "Attributes") and (match := _ITEM.match(line)):
                names = match[1].split(", ")
                found |= dict.fromkeys(names, match[2])
            elif section in ("Args", "Attributes") and line.startswith("     "):
                for name in names:
                    found[name] += f" {line.strip()}"
    return {name: _inline(text) for name, text in found.items()}
