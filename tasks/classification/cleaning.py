"""Removes what web scraping left in AG_News: HTML entities, tags, backslashes."""

import html
import re

# Each pattern matches only what occurs in the corpus: "#1;", "Q&copy", "<MSFT.O>" and "<3" are
# text. Many entities have lost their ampersand:
_LOST_AMPERSAND = re.compile(
    r"(?<![&\w])(?<!&amp;)"
    r"(#0?(?:3[46-9]|1[3-9]\d|2[0-5]\d|8\d{3})|quot|amp|lt|gt|nbsp|rsquo|mdash|eacute);"
)
_ENTITY = re.compile(r"&(?:#\d{1,6}|#[xX][0-9a-fA-F]{1,5}|[a-zA-Z][a-zA-Z0-9]{1,30});")
# A tag with attributes, which have an equals sign, or without. Possessive quantifiers keep the
# search linear in the length of the text.
_TAG = re.compile(
    r"</?(?:a|b|blockquote|br|center|cite|div|em|font|h[1-6]|hr|i|img|li|meta|nobr|ol|p|small|span"
    r"|strong|sub|sup|table|td|th|tr|tt|u|ul)(?:\s[^<>=]*+=[^<>]*+|\s*+/?)>",
    re.IGNORECASE,
)
_WHITE_SPACE = re.compile(r"\s+")


def clean(text: str) -> str:
    """Returns ``text`` without HTML tags and entities, and with a space for each backslash.

    Other texts are unchanged, except that each run of white space becomes one space.
    """
    text = _LOST_AMPERSAND.sub(r"&\1;", text.replace("\\", " "))
    for _ in range(2):  # some entities were escaped twice: &amp;lt;
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return _WHITE_SPACE.sub(" ", _TAG.sub(" ", text)).strip()
