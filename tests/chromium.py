"""A headless Chromium for tests; without one that shows text they are skipped."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, Error, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """Starts the browser, and closes it at the end."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page()
            page.set_content("text")
            shown = page.inner_text("body")
            page.close()
        except Error as error:
            pytest.skip(f"there is no Chromium: {str(error).splitlines()[0]}")
        if not shown:
            pytest.skip("Chromium shows no text: it finds no fonts")
        yield browser
        browser.close()
