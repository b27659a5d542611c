"""Records the predictions that the guide lets a reader look into, and takes pictures of them.

    python -m docs.generator.traces

The pictures need playwright and a Chromium (see ``tests/tasks/web/test_page.py``).
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from playwright.sync_api import sync_playwright

from docs.generator.pictures import FOLDER, shrink
from docs.generator.sources import ROOT

TRACES = {
    "attention": "Zwei Kinder spielen im Schnee.",
    "decoding": "Der Zug kommt bald.",
}
"""The sentences, by their pages in the chapter on the Transformer."""

PICTURES = {
    "inside-attention.png": ("attention", "Attention", 900, 620),
    "inside-search.png": ("decoding", "The search", 900, 560),
    "inside-phone.png": ("attention", "Attention", 360, 720),
}
"""A trace, the heading that its picture begins with, and the size of the window in pixels."""


def main() -> None:
    """Writes all pages and pictures."""
    pages = ROOT / "docs" / "inside"
    for name, text in TRACES.items():
        out = pages / f"{name}.html"
        command = [sys.executable, ROOT / "cli.py", "plot", "inside", text, "--output", out]
        subprocess.run(command, check=True)
        page = out.read_text(encoding="utf-8")
        out.write_text(page.replace('data-guide=""', 'data-guide="../"'), encoding="utf-8")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (trace, heading, width, height) in PICTURES.items():
            size = {"width": width, "height": height}
            page_of = browser.new_page(viewport=size, device_scale_factor=1.5, locale="en-US")
            page_of.goto((pages / f"{trace}.html").as_uri())
            place = page_of.get_by_role("heading", name=heading, exact=True)
            place.evaluate("heading => heading.scrollIntoView()")
            page_of.screenshot(path=FOLDER / name)
            shrink(FOLDER / name)
            print(FOLDER / name)
        browser.close()


if __name__ == "__main__":
    main()
