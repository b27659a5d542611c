"""Names of languages, and a guess at the language of a text.

A translation model knows its two languages, if it is calibrated. Else the guess counts the
commonest words of each language, and letters that few others have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tasks.translation.language import LanguageDetector

_NAMES = {
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "zh": "Chinese",
}
_WORDS = {
    "cs": "a je v se na že to s z do o si jsem by ale jak co pro za po jeho není být který",
    "de": "der die das und ist ein eine einen einem einer in im nicht ich du er sie es wir ihr zu"
    " mit auf für von dem den des sich auch an bei aus nach wie haben hat sind war wird mein",
    "en": "the a an and is are was were of to in on at it he she we they you i not with for from"
    " that this his her my have has be do does by as or but there what will can",
    "es": "el la los las un una y es de que en no se con por para su al del lo más como pero está",
    "fr": "le la les un une et est de des que en ne pas il elle je nous vous avec pour sur dans au"
    " du ce qui se son sa mais ont sont",
    "it": "il lo la i gli le un una e è di che in non si con per su al del come ma sono ha più",
    "nl": "de het een en is van in niet ik je hij zij we dat op met voor zijn aan te er maar ook",
    "pl": "i w na z do nie się że to jest o jak ale po co tak za od jego przez dla są był",
    "pt": "o a os as um uma e é de que em não se com por para seu ao do da mais como mas está",
    "ru": "и в не на я что он с это как а по но она к у из за от так же для был мы вы его",
}
_LETTERS = {
    "cs": "ěřůčžšť",
    "de": "äöüß",
    "es": "ñ¿¡",
    "fr": "œèêçùàâ",
    "it": "òìè",
    "ja": "ぁ-ヿ",
    "pl": "łąęśżźćń",
    "pt": "ãõ",
    "ru": "а-яё",
    "zh": "一-鿿",
}
_LETTER = {code: re.compile(f"[{letters}]") for code, letters in _LETTERS.items()}
_COMMON = {code: frozenset(words.split()) for code, words in _WORDS.items()}
_LONGEST = 2000  # characters that are looked at


def name_of(code: str) -> str:
    """Returns the English name of a language, or its code if it is not a common one."""
    return _NAMES.get(code, code)


def detect_language(
    text: str, codes: Sequence[str], detector: LanguageDetector | None = None
) -> dict[str, Any]:
    """Returns the most probable of ``codes`` for ``text``, and a confidence from 0 to 100.

    A text that speaks for none of them is taken for the first one, with a confidence of 0.

    Args:
        detector: that of a model that translates the first of two codes into the second.
    """
    text = text[:_LONGEST].lower()
    if detector is None:
        weights = _weights(text, codes)
    else:
        weights = dict(zip(codes, detector.evidence(text), strict=True))
    total = sum(weights.values())
    best = max(weights, key=lambda code: weights[code])
    return {"confidence": round(100 * weights[best] / total, 1) if total else 0.0, "language": best}


def _weights(text: str, codes: Sequence[str]) -> dict[str, float]:
    """Returns how many common words and rare letters of each language a text has."""
    words = re.findall(r"\w+", text)
    return {
        code: sum(word in _COMMON.get(code, ()) for word in words)
        + (len(_LETTER[code].findall(text)) if code in _LETTER else 0)
        for code in codes
    }
