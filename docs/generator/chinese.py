"""Chinese text in the guide."""

from __future__ import annotations

import re


def joined(markdown: str) -> str:
    """Returns a page without line breaks between Chinese characters, which would show as spaces."""
    chinese = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = (re.sub(f"(?<={chinese})\n(?={chinese})", "", part) for part in parts[::2])
    return "".join(parts)
