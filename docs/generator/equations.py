"""Equations as MathML, which browsers draw without a script."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

# As pymdownx.arithmatex writes them with ``generic: true``.
_INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\\\[(.+?)\\\]</div>', re.DOTALL)


def with_mathml(page: str) -> str:
    """Returns the HTML of a page with its LaTeX equations as MathML."""
    page = _INLINE.sub(lambda match: convert(html.unescape(match[1])), page)
    return _BLOCK.sub(lambda match: convert(html.unescape(match[1]), display="block"), page)
