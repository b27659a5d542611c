"""Takes the pictures of the web page that README and the guide show.

    python -m docs.generator.screenshots

It needs playwright and a Chromium (see ``tests/tasks/web/test_page.py``).
"""

from __future__ import annotations

import shutil
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

from benchmarks.serving import running_service
from docs.generator.pictures import FOLDER, shrink

GERMAN = "Guten Morgen! Wo ist der Bahnhof?\nZwei Kinder spielen im Schnee und lachen."
ENGLISH = "Oil prices rise as OPEC cuts production, and airline shares fall."
CHINESE = "春风送暖千山秀"


def translate(page: Page) -> None:
    page.locator("#translation .sentence").last.click()
    page.locator("#attention .tokens").last.locator("span").nth(4).hover()


def classify(page: Page) -> None:
    page.locator("#classify-text").press("Control+Enter")
    page.locator("#classify .status", has_text="Done.").wait_for()


def couplet(page: Page) -> None:
    page.locator("#couplet-text").press("Control+Enter")
    page.locator("#couplet .status", has_text="Done.").wait_for()


PICTURES = {
    "page-translate.png": (translate, "translate", GERMAN, 1150),
    "page-classify.png": (classify, "classify", ENGLISH, 700),
    "page-couplet.png": (couplet, "couplet", CHINESE, 1180),
}
"""What is done on the page, its tab, the text, and the height of the window in pixels."""

WIDTH = 900


def main() -> None:
    """Takes all pictures."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with running_service() as port, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (act, tab, text, height) in PICTURES.items():
            size = {"width": WIDTH, "height": height}
            page = browser.new_page(viewport=size, device_scale_factor=1.5, locale="en-US")
            page.goto(f"http://127.0.0.1:{port}/#{tab}?{urlencode({'text': text})}")
            act(page)
            page.wait_for_load_state("networkidle")
            page.screenshot(path=FOLDER / name)
            shrink(FOLDER / name)
            print(FOLDER / name)
        browser.close()


if __name__ == "__main__":
    main()
