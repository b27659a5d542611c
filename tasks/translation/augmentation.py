"""Training pairs as people write: other spellings of the source, and words that are copied.

A model learns to read what is common outside of corpora: capitals, no capitals, ``ae`` for ``ä``,
no full stop at the end. And it learns to copy what has no translation: names, numbers, addresses,
emoji, words in other scripts. For that, a name or number that a pair has on both sides is replaced
by another one, made up here (compare Currey et al. 2017, "Copied Monolingual Data").
"""

import random
import re
import string

_UMLAUTS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
)
_FINAL_MARK = re.compile(r"[.!?]\s*\Z")
# A capitalized word or a number, and not the first word of the sentence.
_COPIED = re.compile(r"(?<=[^\s.!?] )(?:[A-ZÄÖÜ]\w+|\d+)\b")

_CONSONANTS = [*"bcdfghjklmnprstvwxyz", "ch", "qu", "sch", "st", "th"]
_VOWELS = [*"aaeeiioouuäöüéó", "ai", "ie", "ou"]
_ENDINGS = ["com", "de", "org", "net", "eu", "io", "co.uk", "edu"]
# In these, # is a digit and X a letter: numbers, times, dates, prices, shares, versions and so on.
_NUMBERS = (
    "#|##|###|####|#####|#.#|#,##|##:##|##.##.####|#### €|$##|##%|#.#.#|####-##-##|##/##|#.###|X#"
    "|+## ### #######|###-####|X-##|XX###"
)
# The first and the last character of alphabets and of emoji.
_SCRIPTS = ["ая", "αω", "一龥", "あん", "את", "가힣", "àž"]
_EMOJI = ["😀🙏", "🌀🗿", "🚀🛥", "☀⛅", "🤗🧿"]


def augmented(source: str, target: str, rng: random.Random) -> tuple[str, str]:
    """Returns a pair changed in one way, which ``rng`` chooses, or with an addition at its ends."""
    kind = rng.randrange(8)
    if kind == 0:
        return source.upper(), target
    if kind == 1:
        return source.lower(), target
    if kind == 2 and (spelled := source.translate(_UMLAUTS)) != source:
        return spelled, target
    if kind == 3 and _FINAL_MARK.search(source) and _FINAL_MARK.search(target):
        return _FINAL_MARK.sub("", source), _FINAL_MARK.sub("", target)
    literal = rng.choice(_LITERALS)(rng)
    shared = sorted({*_COPIED.findall(source)} & {*_COPIED.findall(target)})
    if shared:
        pattern = re.compile(rf"\b{re.escape(rng.choice(shared))}\b")
        return pattern.sub(lambda _: literal, source), pattern.sub(lambda _: literal, target)
    frame = rng.choice(("{} {}", "{} ({})", "{} - {}", "{1}: {0}"))
    return frame.format(source, literal), frame.format(target, literal)


def _word(rng: random.Random) -> str:
    parts = [rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.randint(1, 4))]
    return "".join(parts) + rng.choice(("", *_CONSONANTS))


def _name(rng: random.Random) -> str:
    names = [_word(rng).capitalize() for _ in range(rng.randint(1, 2))]
    return rng.choice((" ", " ", "-")).join(names)


def _number(rng: random.Random) -> str:
    digits = re.sub("#", lambda _: rng.choice(string.digits), rng.choice(_NUMBERS.split("|")))
    return re.sub("X", lambda _: rng.choice(string.ascii_uppercase), digits)


def _address(rng: random.Random) -> str:
    """Returns an e-mail address or that of a web page."""
    host = f"{_ascii(rng)}.{rng.choice(_ENDINGS)}"
    if rng.random() < 0.5:
        user = rng.choice((".", "_", "-", "")).join(_ascii(rng) for _ in range(rng.randint(1, 2)))
        return f"{user}{rng.choice(('', str(rng.randrange(100))))}@{host}"
    start = rng.choice(("https://", "http://", "https://www.", "www.", ""))
    path = "".join(f"/{_ascii(rng)}" for _ in range(rng.randint(0, 2)))
    end = rng.choice(("", "", "/", f"?{_ascii(rng)}={rng.randrange(1000)}", ".html"))
    return f"{start}{host}{path}{end}"


def _ascii(rng: random.Random) -> str:
    return re.sub(r"[^a-z]", "", _word(rng))


def _characters(rng: random.Random) -> str:
    """Returns emoji, or a word of another script."""
    first, last = map(ord, rng.choice(rng.choice((_SCRIPTS, _EMOJI))))
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 4)))


_LITERALS = (_name, _name, _number, _number, _address, _characters)
