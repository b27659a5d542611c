"""The page in a real browser, headless Chromium: what a person can do, see, and reach by keyboard.

The tests need playwright and a Chromium (Debian: ``apt install chromium``; elsewhere ``playwright
install chromium``); without them they are skipped.
"""

import io
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from matplotlib import image

pytest.importorskip("fastapi", reason="the extra `web` is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, Page, expect

from tasks.web.server import Server, open_socket
from tasks.web.service import Service
from tests.chromium import chromium
from tests.tasks.web.services import predictors
from tests.tasks.web.services import service as new_service

SENTENCES = "ein Hund rennt .\nder Hund sieht das Haus ,"
TIMEOUT = 60_000  # milliseconds; the machine may be busy


class Site:
    """A service in a thread, with models that have learnt nothing."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.server = Server(service, "127.0.0.1")
        self.socket = open_socket("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.service.close()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site(new_service(rate_limit=0))
    yield site
    site.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page of the service; errors and requests to other sites make a test fail."""
    context = browser.new_context(locale="en-US")
    context.set_default_timeout(TIMEOUT)
    expect.set_options(timeout=TIMEOUT)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)

    def is_outside(address: str) -> bool:
        return not address.startswith((site.url, "data:", "blob:"))

    page.on("request", lambda r: problems.append(r.url) if is_outside(r.url) else None)
    page.goto(f"{site.url}#translate?text={quote(SENTENCES)}")
    yield page
    context.close()
    expected = ("net::ERR_CONNECTION_REFUSED", "400 (Bad Request)")
    assert [line for line in problems if not any(part in line for part in expected)] == []


def test_translating(page: Page) -> None:
    """A link shows its text; sentences have alternatives and attention; picks are in the link."""
    sentences = page.locator("#translation .sentence")
    expect(sentences).to_have_count(2)
    expect(page.locator("#source-language")).to_have_text("German")
    sentences.nth(1).click()
    alternatives = page.locator("#alternatives button")
    expect(alternatives).to_have_count(5)
    chosen = alternatives.nth(2).inner_text()
    alternatives.nth(2).click()
    expect(sentences.nth(1)).to_have_text(chosen)
    expect(alternatives.nth(2)).to_have_attribute("aria-pressed", "true")
    rows = page.locator("#attention .tokens")
    expect(rows).to_have_count(2)
    source, target = rows.all()
    assert source.inner_text().split() == [*SENTENCES.split()[4:], "<eos>"]
    weights = []
    for token in target.locator("span").all()[:2]:
        token.hover()
        shown = [float(s.get_attribute("title") or "nan") for s in source.locator("span").all()]
        assert sum(shown) == pytest.approx(1, abs=0.05)
        weights.append(shown)
    page.locator("#head").select_option("2")
    of_head = [float(s.get_attribute("title") or "nan") for s in source.locator("span").all()]
    assert of_head != weights[1]
    assert "chosen=0.2" in page.url
    page.reload()
    expect(sentences.nth(1)).to_have_text(chosen)


def test_a_link_to_the_text_that_the_page_begins_with_has_its_choices(page: Page) -> None:
    """The choices in the address were forgotten where its text was the example's."""
    example = page.locator("#translate-text")
    address = page.url.partition("#")[0]
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("#translate .status")).to_have_text("Done.")
    text = example.input_value()
    page.goto("about:blank")
    page.goto(f"{address}#translate?chosen=0.1&text={quote(text)}")
    expect(page.locator("#translate .status")).to_have_text("Done.")
    page.locator("#translation .sentence").nth(1).click()
    expect(page.locator("#alternatives button").nth(1)).to_have_attribute("aria-pressed", "true")
    assert "chosen=0.1" in page.url


def test_translating_while_typing(page: Page) -> None:
    expect(page.locator("#translation .sentence")).to_have_count(2)
    text = page.locator("#translate-text")
    text.fill("")
    text.press_sequentially("ein Haus rennt . \n\n das Haus rennt .")
    expect(page.locator("#translation .sentence")).to_have_count(2)
    expect(page.locator("#translation")).to_have_text(re.compile(r"\S\s*\n\n\s*\S"))
    expect(page.locator("#translate .status")).to_have_text("Done.")
    assert "das+Haus+rennt" in page.url


def test_classifying(page: Page) -> None:
    page.locator("#tab-classify").click()
    page.locator("#classify-text").fill("shares fall")
    page.locator("#classify-text").press("Control+Enter")
    rows = page.locator(".bars li")
    expect(rows).to_have_count(5)
    shown = [float(percent.rstrip("%")) for percent in page.locator(".percent").all_inner_texts()]
    assert shown == sorted(shown, reverse=True)
    expect(rows.nth(0)).to_contain_text("most probable")
    size = "bars => bars.map(bar => getComputedStyle(bar).backgroundSize)"
    widths = rows.locator(".bar").evaluate_all(size)
    assert [float(width.split("%")[0]) for width in widths] == shown
    expect(page.locator(".words span")).to_have_text(["shares", "fall"])
    expect(page.locator(".warning")).to_have_count(0)


def test_each_line_of_the_box_is_a_text_of_its_own(page: Page) -> None:
    """Two headlines were classified as one text."""
    page.locator("#tab-classify").click()
    page.locator("#classify-text").fill("shares fall\n\nthe cup final\n")
    page.locator("#classify-text").press("Control+Enter")
    expect(page.locator(".bars")).to_have_count(2)
    expect(page.locator("#classes h2")).to_have_text(["shares fall", "the cup final"])


def test_what_is_probably_wrong_is_said_in_words(page: Page) -> None:
    def answer(*confidences: float | None) -> dict[str, Any]:
        hypotheses = [[{"translation": text, "score": -1.0}] for text in "ab"]
        parts = [
            {"input": best[0]["translation"], "space": " ", "hypotheses": best, "confidence": value}
            for best, value in zip(hypotheses, confidences, strict=True)
        ]
        return {"results": [{"sentences": parts}]}

    answers = [answer(None, None), answer(0.39, 0.41)]
    expect(page.locator("#translation .sentence")).to_have_count(2)  # of the link
    page.route("**/v1/translate", lambda route: route.fulfill(json=answers.pop(0)))
    page.locator("#translate .go").click()
    expect(page.locator("#translation .sentence").first).to_have_text("a")
    expect(page.locator("#legend")).to_be_hidden()
    page.locator("#translate .go").click()
    expect(page.locator(".doubt")).to_have_text(["(probably wrong)"])
    expect(page.locator("#translation .unsure")).to_have_text("a")
    expect(page.locator("#legend")).to_contain_text("wavy: probably wrong")


def test_a_couplet_with_a_banner_answered_backwards(page: Page) -> None:
    asked: list[Any] = []
    hypothesis = {"second": "春天", "score": -1.0, "rules": {}, "broken": {}, "banner": "春满人间"}
    answer = {"results": [{"input": "秋水", **hypothesis, "hypotheses": [hypothesis]}]}

    def fulfill(route: Any) -> None:
        asked.append(route.request.post_data_json)
        route.fulfill(json=answer)

    page.route("**/v1/couplet", fulfill)
    page.locator("#tab-couplet").click()
    page.locator("#couplet-text").fill("秋水")
    page.locator("#rhyme").select_option("pingshui")
    page.evaluate("document.getElementById('direction-label').hidden = false")
    page.locator("#backward").select_option("1")
    expect(page.locator("#couplet-label")).to_contain_text("second line")
    strips = page.locator(".paper > p")
    expect(strips).to_have_text(["春满人间", "春天", "秋水"])
    sent = {name: asked[-1].get(name) for name in ("backward", "rhyme", "banner")}
    assert sent == {"backward": True, "rhyme": "pingshui", "banner": True}


def test_a_text_unlike_the_training_data_is_marked(page: Page) -> None:
    found = {"label": "Sports", "probabilities": {"Sports": 0.7}, "explanation": []}
    answer = {"results": [{"unfamiliar": True, **found}]}
    page.route("**/v1/classify", lambda route: route.fulfill(json=answer))
    page.locator("#tab-classify").click()
    page.locator("#classify .go").click()
    expect(page.locator(".warning")).to_contain_text("unlike the news")


def test_answering_a_couplet(page: Page) -> None:
    page.locator("#tab-couplet").click()
    page.locator("#couplet-text").fill("风天山")
    page.locator("#couplet .go").click()
    expect(page.locator("#couplet .status")).to_have_text("Done.")  # not the example's papers
    papers = page.locator(".papers > li")
    expect(papers.nth(1)).to_be_visible()  # the model knows few characters: there may be only two
    expect(papers.nth(0).locator(".rules li")).to_have_count(10)
    second = papers.nth(1).locator(".strip").nth(1).locator("button")
    kept = second.nth(1).inner_text()
    second.nth(1).click()
    expect(second.nth(1)).to_be_focused()
    expect(second.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#candidates .hint")).to_contain_text(f"Kept: ？{kept}")
    page.get_by_text("Answer again").click()
    expect(page.locator("#couplet .status")).to_have_text("Done.")
    for paper in papers.all():
        line = paper.locator(".strip").nth(1).locator("button").all_inner_texts()
        assert line[1] == kept
    shown = papers.all_inner_texts()
    page.reload()  # the address has the characters that are kept
    expect(page.locator("#couplet .status")).to_have_text("Done.")
    assert papers.all_inner_texts() == shown
    expect(page.locator("#candidates .hint")).to_contain_text(f"Kept: ？{kept}")
    page.get_by_text("Keep none").click()
    expect(page.locator(".kept")).to_have_count(0)
    assert "keep" not in page.url
    state = "[...document.fonts].map(font => `${font.family.replaceAll('\"', '')}: ${font.status}`)"
    assert page.evaluate(state) == ["Couplet Brush: loaded", "Couplet Kai: unloaded"]
    with page.expect_download() as download:
        papers.nth(0).get_by_text("Save picture").click()
    with open(download.value.path(), "rb") as file:  # noqa: PTH123  # it is a Path or a str
        pixels = image.imread(io.BytesIO(file.read()))
    red, green, blue = (pixels[..., channel] for channel in range(3))
    is_paper = (red > 0.6) & (green < 0.2) & (blue < 0.2)
    assert 0.2 < is_paper.mean() < 0.9
    papers.nth(0).locator("summary").click()
    expect(papers.nth(0).locator(".rules li").first).to_be_visible()
    papers.nth(1).get_by_text("Enlarge").click()
    expect(papers.nth(0)).to_contain_text("Candidate 2")


def test_tabs_by_keyboard_keep_their_state(page: Page) -> None:
    expect(page.locator("#translation .sentence")).to_have_count(2)
    page.locator("#tab-translate").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-classify")).to_be_focused()
    expect(page.locator("#classify")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator("#classify-text")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("End")
    expect(page.locator("#inside")).to_be_visible()
    assert "#inside" in page.url
    page.keyboard.press("ArrowRight")
    expect(page.locator("#translation .sentence")).to_have_count(2)
    assert page.locator("#translate-text").input_value() == SENTENCES


def faults(page: Page, **options: Any) -> list[tuple[str, str, str]]:
    """Returns what axe finds wrong: the rule, how bad it is, and the first element."""
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core is not installed")
    found = axe.Axe().run(page, options={"resultTypes": ["violations"], **options})
    return [(f["id"], f["impact"], f["nodes"][0]["html"]) for f in found["violations"]]


def test_no_fault_that_axe_finds(page: Page) -> None:
    """Contrast, labels, roles: in all languages' markup, and in light and dark colors."""
    for language, title in (("en", "Translate"), ("de", "Übersetzen"), ("zh", "翻译")):
        page.locator("#language").select_option(language)
        expect(page.locator("#tab-translate")).to_have_text(title)
    page.locator("#translation .sentence").nth(0).click()
    expect(page.locator("#attention .tokens")).to_have_count(2)
    shown = [
        ("translate", None),
        ("classify", ".bars"),
        ("couplet", ".papers"),
        ("inside", ".tree"),
    ]
    page.locator("#couplet-text").evaluate("e => { e.value = '风天山' }")
    for name, result in shown:
        page.locator(f"#tab-{name}").click()
        if result:
            page.locator(f"#{name} .go").click()
            expect(page.locator(result)).to_be_visible()
        assert faults(page) == []
        page.emulate_media(color_scheme="dark")
        assert faults(page, runOnly=["cat.color"]) == []
        page.emulate_media(color_scheme="light")


def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("#translation .sentence").nth(0).click()
    expect(page.locator("#attention .tokens")).to_have_count(2)
    for name in ("translate", "classify", "couplet", "inside"):
        page.locator(f"#tab-{name}").click()
        if name == "inside":
            page.locator("#inside .go").click()
            expect(page.locator(".tree")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_canceling(page: Page, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search would never end; the service stops it as well."""
    expect(page.locator("#translation .sentence")).to_have_count(2)
    translator = site.service.predictors["translation"]
    stopped = threading.Event()

    def endless(texts: Any, request: Any) -> list[Any]:
        try:
            while texts:
                time.sleep(0.01)
                request.on_step()
        finally:
            if texts:
                stopped.set()
        return []

    monkeypatch.setattr(translator, "generate", endless)
    page.locator("#translate .go").click()
    expect(page.locator("#translate progress")).to_be_visible()
    page.locator("#translate .cancel").click()
    expect(page.locator("#translate .status")).to_have_text("Canceled.")
    assert stopped.wait(20)


def test_errors_are_shown_in_words(page: Page) -> None:
    page.locator("#tab-couplet").click()
    page.locator("#couplet-text").fill("abc")
    page.locator("#couplet .go").click()
    expect(page.locator("#couplet .status")).to_contain_text("no Chinese character")
    page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    page.locator("#couplet .go").click()
    expect(page.locator("#gone")).to_contain_text("The service does not answer")
    page.unroute("**/v1/**")
    page.locator("#couplet-text").fill("风天山")
    page.locator("#couplet .go").click()
    expect(page.locator(".papers > li").first).to_be_visible()
    expect(page.locator("#gone")).to_be_hidden()


# Looking inside


def test_looking_inside(page: Page) -> None:
    """The five questions of a learner: each is answered by what is clicked here."""
    page.locator("#translation .sentence").nth(1).click()
    page.locator("#sentence .look").click()
    view = page.locator("#trace .inside")
    tree, nodes = view.locator(".tree"), view.locator('[role="treeitem"]')
    expect(tree).to_be_visible()
    assert page.locator("#inside-text").input_value() == SENTENCES.split("\n")[1]
    # Why this word, and not the next best one?
    view.locator('[role="treeitem"].best').nth(1).click()
    expect(view.locator(".node")).to_contain_text("Kept: it is number")
    view.locator('[role="treeitem"].pruned').first.click()
    expect(view.locator(".node")).to_contain_text("Pruned: it is number")
    slider = view.locator(".steps input")
    slider.focus()
    page.keyboard.press("Home")
    expect(nodes.locator("visible=true")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    assert nodes.locator("visible=true").count() > 5
    # Which words does a head look at?
    view.get_by_role("button", name="layer 1, head 2").click()
    options = view.locator('[role="option"]')
    options.nth(1).hover()
    weights = [float(shown) for shown in view.locator(".weight").all_inner_texts()]
    assert sum(weights) == pytest.approx(1, abs=0.05)
    expect(view.locator(".says")).to_contain_text(" looks at ")
    # What did the mask hide?
    view.get_by_label("the output at itself").check()
    expect(view.locator(".masked")).to_have_count(options.count() - 1)
    options.nth(1).focus()
    page.keyboard.press("End")
    expect(view.locator(".masked")).to_have_count(0)
    # Why did the second hypothesis lose?
    why = view.locator("td .long", has_text="They part at step").first
    expect(why).to_be_visible()
    page.set_viewport_size({"width": 360, "height": 740})
    box = why.bounding_box() or {}
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360
    view.get_by_text("Compare greedy search").click()
    shown = view.locator("tr", has=page.get_by_role("button", name="show width 1"))
    shown.get_by_role("button").click()
    expect(view).to_contain_text("Greedy search. It stopped")
    expect(view.get_by_role("button", name="show width")).to_have_count(8)


def test_what_if_another_word_had_been_chosen(page: Page) -> None:
    page.goto(f"{page.url.partition('#')[0]}#inside?text={quote(SENTENCES[:16])}")
    view = page.locator("#trace .inside")
    own = view.locator(".title .token").nth(1)
    before = own.inner_text()
    view.locator('[role="treeitem"]').first.click()
    button = view.get_by_role("button", name="what if?").first
    word = (button.get_attribute("aria-label") or "").removeprefix("what if? ")
    button.click()
    banner = view.locator(".before")
    expect(banner).to_contain_text(before)
    assert own.inner_text().startswith(word)
    page.reload()
    expect(banner).to_contain_text(before)
    page.locator("#inside-back").click()
    expect(banner).to_have_count(0)
    expect(own).to_have_text(before)
    assert "prefix" not in page.url


@pytest.mark.parametrize("task", ["translation", "classification", "couplet"])
def test_a_trace_in_a_file(browser: Browser, tmp_path: Path, task: str) -> None:
    """It works from the disk, in both languages, small and dark, and shows what a text hides."""
    script = "Hund </script><script>alert(1)</script> \"'\u202e."
    text = "风天山，云" if task == "couplet" else script
    path = tmp_path / "trace.html"
    path.write_text(predictors()[task].trace(text).html(guide="../"), encoding="utf-8")
    context = browser.new_context(locale="zh-CN", viewport={"width": 360, "height": 740})
    page, problems = context.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda request: problems.append(request.url))
    page.goto(path.as_uri())
    expect(page.locator("h1")).to_have_text("看看里面")
    for language, theme in (("zh", "dark"), ("en", "light")):
        page.locator("#language").select_option(language)
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        for summary in page.locator("summary").all():
            summary.click()
        links = page.locator("details a").evaluate_all("all => all.map(a => a.href)")
        assert all(re.search(f"/source/|/{language}/", link) or language == "en" for link in links)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert faults(page) == []
        shown = page.locator(".title .token").first.inner_text()
        assert shown == text.replace("\u202e", "‹U+202E›")
    assert problems == [path.as_uri()]
    context.close()
