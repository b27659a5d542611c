"""The guide: its code prints what it shows, its commands and links exist, and the site is built."""

import dataclasses
import importlib.util
import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path

import click
import pytest

import cli
from docs.generator import sources
from docs.generator.chinese import joined
from docs.generator.reference import commands, configuration, python
from tasks.task import TASKS, task_named
from tests.commands.command_line import run
from tests.forked import run_in_fork
from tests.guide_pages import LANGUAGES, PAGES, document, run_page, same_in_all_languages
from tests.readme_blocks import ROOT, Block, blocks, check_target
from transformer_suite import __all__ as public_names

DOCUMENTS = [document(language, page) for page in PAGES for language in LANGUAGES]
PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())
MAX_PICTURE = 60_000  # bytes
KINDS_OF_BLOCKS = {"python", "text", "console", "sh", "toml"}


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


# Code


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_prints_what_is_shown(page: str, in_tmp: Path) -> None:
    """After a change on purpose: ``python -m tests.guide_pages`` writes the new outputs."""
    for result in run_page(page):
        assert result.prints == result.shown, result.code


@pytest.mark.parametrize("page", PAGES)
def test_all_languages_show_the_same_code_and_output(page: str) -> None:
    first, second = (
        [(b.language, same_in_all_languages(b)) for b in blocks(document(language, page))]
        for language in LANGUAGES
    )
    assert first == second


@pytest.mark.parametrize("page", PAGES)
def test_all_languages_show_the_same_sources_and_pictures(page: str) -> None:
    first, second = (
        re.findall(r"(?m)^:::.*|!\[[^]]*\]\((.*?)\)", text_of(document(language, page)))
        for language in LANGUAGES
    )
    assert first == second


def test_all_languages_have_the_same_pages() -> None:
    assert len(PAGES) >= 14
    for language in LANGUAGES:
        folder = ROOT / "docs" / language
        assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.md")) == PAGES


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_block_is_of_a_kind_that_is_checked(path: str) -> None:
    """An indented block would be checked by nothing."""
    assert {block.language for block in blocks(path)} <= KINDS_OF_BLOCKS


SHELL = [b for page in PAGES for b in blocks(document("en", page)) if b.language == "sh"]


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_that_take_long_can_be_parsed(block: Block) -> None:
    assert block.commands()
    for command in block.commands():
        for part in parts_of(command):
            check_command(part)


def parts_of(command: str) -> Iterator[list[str]]:
    """Yields the words of each program in a pipe."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    part: list[str] = []
    for word in words:
        if word == ">":
            next(words)
        elif word in ("|", "&&"):
            yield part
            part = []
        else:
            part.append(word)
    yield part


def check_command(words: list[str]) -> None:
    """Checks that a command exists and has these options, without running it."""
    if "cli.py" in words:
        at = words.index("cli.py")
        assert not at or Path(words[0]).name == "torchrun"
        return parse(*words[at + 1 :])
    match words:
        case ["make", target]:
            check_target(target)
        case ["pip", "install", extra]:
            config = ConfigParser()
            config.read(ROOT / "setup.cfg")
            assert extra.removeprefix(".[").removesuffix("]") in config["options.extras_require"]
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module) is not None
        case [program, *_]:
            assert program in ("cut", "curl", "mkdir", "paste", "awk"), program
    return None


def parse(*words: str) -> None:
    """Parses the arguments of ``cli.py``, and runs nothing."""
    command: click.Command = cli.main
    context = command.make_context("cli.py", list(words))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        found_name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        context = command.make_context(found_name, rest, parent=context)


TOML = [b for page in PAGES for b in blocks(document("en", page)) if b.language == "toml"]


@pytest.mark.parametrize("block", TOML, ids=str)
def test_configurations_are_accepted(block: Block, in_tmp: Path) -> None:
    (in_tmp / "config.toml").write_text(block.text)
    done = run("train", "translation", "--config", "config.toml", "--show-config")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_setting_that_is_named_exists(path: str) -> None:
    """In the prose and in commands: ``train.epochs``, ``data.src``."""
    known = {
        f"{section.name}.{option.name}"
        for task in TASKS
        for section in dataclasses.fields(task_named(task).config_class)
        for option in dataclasses.fields(getattr(task_named(task).config_class(), section.name))
    }
    sections = "model|data|train|generation|rerank|form|prediction"
    named = re.findall(rf"(?:--set |`)'?((?:{sections})\.[a-z]\w*)[=`]", text_of(path))
    files = {name for name in named if name.endswith((".de", ".en", ".fr", ".tsv", ".pkl"))}
    assert set(named) - files <= known


# Pictures and links


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_small_and_shown_with_its_command(picture: Path) -> None:
    assert picture.stat().st_size < MAX_PICTURE
    shown_as = f"/pictures/{picture.name})"
    pages = [page for page in PAGES if shown_as in text_of(document("en", page))]
    assert pages
    shown = text_of(document("en", pages[0]))
    if picture.name.startswith("page-"):  # screenshots, which one command takes
        assert "`python -m docs.generator.screenshots`" in shown
    else:
        after = shown[shown.index(shown_as) :].split("\n\n")[1]
        assert re.search(r"`(cli\.py plot|python -m) ", after)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_the_sources_of_a_page_exist(path: str) -> None:
    page = path.removeprefix("docs/")
    markdown = sources.with_sources(text_of(path), page)
    assert "\n::: source" not in markdown
    for file in sources.named_files(text_of(path), page):
        assert (ROOT / file).is_file()


# The generator


@pytest.mark.parametrize(
    ("name", "line", "complaint"),
    [("no_such_name", None, "0 definitions"), ("padding_mask", "no such line", "0 lines")],
)
def test_an_excerpt_that_is_gone_fails_the_build(
    name: str, line: str | None, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        sources.excerpt("core/model/masks.py", name, line, line)


def test_lines_of_chinese_are_joined_except_in_code() -> None:
    """A browser shows a line break as a space, which Chinese does not have."""
    page = "# 标题\n\n第一行，\n第二行\nand a word\n\n```text\n上联\n下联\n```\n"
    expected = "# 标题\n\n第一行，第二行\nand a word\n\n```text\n上联\n下联\n```\n"
    assert joined(page) == expected


def test_the_reference_has_every_public_name() -> None:
    headings = [part.removeprefix("## ") for part in python() if part.startswith("## ")]
    assert headings == list(public_names)


def test_the_reference_has_every_command_and_option() -> None:
    text = "\n".join(commands())
    for name in cli.main.list_commands(click.Context(cli.main)):
        assert f"\n## {name}\n" in f"\n{text}"
    assert "`--beam, --beam-size INTEGER`{ .option } | The width of the beam" in text


def test_the_reference_explains_every_setting() -> None:
    """A setting without a line in its docstring raises a KeyError."""
    rows = [row for part in configuration() for row in part.splitlines() if row.startswith("| `")]
    assert len(rows) > 100
    for row in rows:
        assert len(row.rstrip(" |").rpartition("| ")[2]) > 10, row
    assert any(row.startswith("| `model.nhead`{ .option } | `int` | `6` | H") for row in rows)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_notebook_has_the_code_of_its_page_as_cells(path: str) -> None:
    nbformat = pytest.importorskip("nbformat", reason="pip install '.[docs]'")
    from docs.generator.notebooks import SETUP, notebook

    language, _, page = path.removeprefix("docs/").partition("/")
    made = notebook(language, page)
    nbformat.validate(made)
    of_page = [block for block in blocks(path) if block.language in ("python", "console")]
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert code[0].source == SETUP
    for cell, block in zip(code[1:], of_page, strict=True):
        if block.language == "python":
            assert cell.source == block.text
        else:
            run = [line.removeprefix("!{sys.executable} ") for line in cell.source.splitlines()]
            assert run == [command for command, _ in block.examples()]
    folder = ROOT / "notebooks" / language / page
    for cell in made.cells:
        assert not re.search(r"(?m)^:::", cell.source)
        for link in re.findall(r"\]\((?!\w+:)([^)#]+)", cell.source):
            target = (folder.parent / link).resolve()
            if target.suffix == ".ipynb":
                target = ROOT / "docs" / target.relative_to(ROOT / "notebooks").with_suffix(".md")
            assert target.exists(), link


# The site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide, built strictly: a broken link ends the build."""
    for module in ("mkdocs", "material", "mkdocs_static_i18n", "latex2mathml"):
        pytest.importorskip(module, reason="pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("guide") / "site"

    def program() -> None:
        os.chdir(ROOT)
        sys.argv = ["mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
        runpy.run_module("mkdocs", run_name="__main__")

    done = run_in_fork(program)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_all_pages_in_all_languages(site: Path) -> None:
    for page in PAGES:
        for folder in (site, site / "zh"):
            html = (folder / page).with_suffix(".html").read_text(encoding="utf-8")
            assert "<h1" in html
            assert ":::" not in html


def test_the_site_needs_nothing_from_outside(site: Path) -> None:
    """Neither fonts, nor scripts, nor pictures, nor styles: links are all that may lead outside."""
    for path in site.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"?([^\"\s>]+)", html)
        loaded += re.findall(r"<link[^>]*\shref=\"?([^\"\s>]+)", html)
        assert loaded
        assert not [url for url in loaded if re.match(r"(\w+:)?//", url)], path
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", path.read_text(encoding="utf-8"))


def test_equations_are_mathml(site: Path) -> None:
    html = (site / "transformer" / "embedding.html").read_text(encoding="utf-8")
    assert html.count("<math") > 5
    assert "arithmatex" not in html


def test_a_link_to_a_source_leads_to_its_line(site: Path) -> None:
    html = (site / "transformer" / "embedding.html").read_text(encoding="utf-8")
    path, anchor = re.findall(r'href="\.\./(source/[^"#]*)#([^"]*)"', html)[0]
    target = (site / path).read_text(encoding="utf-8")
    assert f'id="{anchor}"' in target or f'name="{anchor}"' in target


def test_the_search_works_in_pages_opened_as_files(site: Path) -> None:
    """There, a browser starts no worker and fetches no JSON."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    from tests.chromium import chromium

    with chromium() as browser:
        page = browser.new_page()
        for start, query in (("index.html", "softmax"), ("zh/index.html", "因果掩码")):
            page.goto((site / start).as_uri())
            found = page.locator(".md-search-result__link").first
            for _ in range(20):  # the script of a slow page does not listen at once
                page.keyboard.press("Escape")
                page.keyboard.press("/")
                page.locator(".md-search__input").fill("")
                page.keyboard.type(query)
                page.keyboard.press("Shift")  # the page reads when a key is released
                with suppress(playwright.TimeoutError):
                    found.wait_for(timeout=3_000)
                    break
            found.wait_for(timeout=1_000)
            folder = Path(start).parent
            assert found.get_attribute("href") == (
                (site / folder / "transformer" / "attention.html").as_uri()
            )
