"""The hooks of MkDocs (see ``mkdocs.yml``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.generator.chinese import joined
from docs.generator.equations import with_mathml
from docs.generator.reference import with_reference
from docs.generator.sources import named_files, page_of, source_page, station_files, with_sources


# After the plugin for languages, which cannot take files that are not on disk.
@event_priority(-100)
def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds a page for each source file that a page of the guide shows or links to."""
    paths = station_files()
    for file in files.documentation_pages():
        paths |= named_files(file.content_string, file.src_uri)
    for path in sorted(paths):
        files.append(File.generated(config, page_of(path), content=source_page(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **rest: Any) -> str:
    """Replaces the directives of a page."""
    if page.file.src_uri.startswith("source/"):
        return markdown
    return with_reference(with_sources(joined(markdown), page.file.src_uri))


def on_page_content(html: str, **rest: Any) -> str:
    """Turns the equations of a page into MathML."""
    return with_mathml(html)


# After the search has written its index.
@event_priority(-100)
def on_post_build(*, config: MkDocsConfig) -> None:
    """Writes the index of the search as a script, too: pages that are opened as files load that."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}\n", encoding="utf-8")
