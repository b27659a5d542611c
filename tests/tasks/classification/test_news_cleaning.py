"""What is cleaned from news, and what is left as it is."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.classification.cleaning import clean
from tasks.classification.config import TEXT_COLUMNS
from tasks.classification.sources import read_news
from tests.growth import growth


@pytest.mark.parametrize(
    ("scarred", "clean_text"),
    [
        # As they stand in the published rows.
        (r"a barrel,\which has a reputation", "a barrel, which has a reputation"),
        (r"near  #36;46\a barrel", "near $46 a barrel"),
        ("It #39;s the workers #39; day", "It 's the workers ' day"),
        ("&lt;b&gt;Analysis&lt;/b&gt; Oil", "Analysis Oil"),
        ("&lt;B&gt;Bold&lt;/B&gt;&lt;BR&gt;", "Bold"),
        ("a quot;smart quot; bomb", 'a "smart " bomb'),
        ("AT amp;T and Texas A amp;M", "AT &T and Texas A &M"),
        ("he said #151; quietly #147;no #148;", "he said — quietly “no ”"),
        ("caf eacute; and #233;t #233;", "caf é and ét é"),
        ("nbsp;two&nbsp;words", "two words"),
        ("pounds #8212; #163;5", "pounds — £5"),
        ("&amp;lt;i&amp;gt;twice&amp;lt;/i&amp;gt;", "twice"),
        ('&lt;A HREF="http://www.reuters.com/x.jhtml?a=1"&gt;Reuters&lt;/A&gt;', "Reuters"),
        ('&lt;font size="-2"\\ color="#666666"&gt;small&lt;/font&gt;', "small"),
        ("&lt;br /&gt;&lt;p&gt;ADVERTISEMENT&lt;/p&gt;", "ADVERTISEMENT"),
        ("Corp. &lt;MSFT.O&gt; said", "Corp. <MSFT.O> said"),
    ],
)
def test_scars_are_mended(scarred: str, clean_text: str) -> None:
    assert clean(scarred) == clean_text


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "a <b and c> d",
        "5 > 3; 3 < 5; 1 <2> 3",
        "AT&T, R&D, Q&A; Barnes & Noble",
        "C#; D, F#, #12; and #1 and #50; but not #7;",
        "the band&notables, ?a=1&copy=2&lt=3",
        "I <3 you, <user@example.org> wrote",
        "10% off; the amplifier, gtk; quotas",
        "Hamas Camp; 13 killed",
        "价格上涨了5%；他说：“好。”《天地》<三>",
        "Überraschung im Café – «naïve» …",
        "`code` 'quoted' \"quoted\" (a) [b] {c}",
    ],
)
def test_ordinary_text_passes_unchanged(text: str) -> None:
    """All of these lost something to an earlier rule, or stand next to one that would."""
    assert clean(text) == text


@given(text=st.text(st.characters(exclude_characters="\\&#<;", exclude_categories=("Cs",))))
def test_without_the_signs_of_scars_only_white_space_changes(text: str) -> None:
    assert clean(text) == " ".join(text.split())


@given(text=st.text(st.sampled_from("ab #39;&lt;gt;quot;<b>/\\ =")))
def test_nothing_is_added_and_nothing_is_left_on_the_edges(text: str) -> None:
    found = clean(text)
    assert found == found.strip()
    assert "\\" not in found
    assert "  " not in found
    assert len(found) <= len(text)


def test_the_published_rows_come_out_clean(shared_data: Path) -> None:
    """Of the test rows no entity and no tag is left; tickers such as <MSFT.O> are no tags."""
    rows = read_news(shared_data / "ag_news" / "test.csv", TEXT_COLUMNS, num_classes=4)
    text = "\n".join(clean(row.text) for row in rows)
    for scar in ("&lt;", "&gt;", "#39;", "#36;", "quot;", " amp;", "&nbsp;", "\\", "<b>", "</"):
        assert scar not in text
    assert text.count("'s ") > 1000


@pytest.mark.parametrize(
    "hostile",
    [
        lambda n: "<a " + "=" * n + " " * n,
        lambda n: "<a " + " =" * n,
        lambda n: "<a " * n,
        lambda n: "<a" + " " * n,
        lambda n: "&amp;" * n,
        lambda n: "#" * n + "&#" * n,
    ],
)
def test_cleaning_is_linear_in_the_text(hostile: Callable[[int], str]) -> None:
    """2.4 KB of the first text took 100 seconds: the pattern of tags backtracked cubically."""
    assert growth(clean, hostile(20_000), hostile(80_000), most=12) < 12


tag_parts = st.lists(st.sampled_from(["<a", "<br", " ", "=", "/", ">", "x", "</b"]), max_size=12)


@given(text=tag_parts.map("".join))
def test_the_linear_pattern_of_tags_matches_what_the_old_one_did(text: str) -> None:
    old = re.compile(r"</?(?:a|b|br)(?:\s[^<>]*=[^<>]*)?\s*/?>")
    assert clean(text) == " ".join(old.sub(" ", text).split())
