"""What a user asks of a couplet writer: the options of a search, and those of the form."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

from core.config import check, check_choice, option
from core.errors import ConfigError, CorpusError
from data.readers import iter_lines
from tasks.couplet.config import FormConfig, ToneRules
from tasks.couplet.script import SCRIPTS, Script
from tasks.couplet.tones import System, is_punctuation
from tasks.seq2seq.request import GenerationRequest
from tasks.texts import as_texts

WILDCARDS = "？?＊*"
"""The characters of ``keep`` that stand for a free place."""

MAX_AVOIDED = 10_000
MAX_AVOIDED_LENGTH = 20


@dataclass(frozen=True, kw_only=True)
class CoupletRequest(GenerationRequest):
    """A request whose form may differ from that of the model's configuration.

    * ``tones``, ``rhyme``: see :class:`FormConfig`.
    * ``keep``: the second line with a wildcard (``？``) for each free place: ``春？？？？``.
    * ``avoid``: a word or words that no answer may have, beside those of ``words/avoided.txt``.
    * ``script``: that of the answers; ``auto`` is that of the first line.
    * ``backward``: the texts are second lines, the answers first ones.

    Raises:
        ConfigError: a value outside its range, or ``keep`` beside ``prefix``.
        TypeError: ``avoid`` is neither a word nor several words.
    """

    tones: ToneRules | None = option(
        None,
        "Which tones oppose those of the first line: none, the last, or also those at 2, 4 and 6.",
        "couplet",
    )
    rhyme: System | None = option(
        None,
        "Where tones and rhymes are looked up: modern readings or the classical table.",
        "couplet",
    )
    keep: str | None = option(
        None,
        "Characters of the answer, with ？ for free ones: 春？？？？.",
        "couplet",
        metavar="PATTERN",
    )
    avoid: Sequence[str] = ()
    script: Script = option(
        "auto", "The characters of the answers; auto: those of the first line.", "couplet"
    )
    backward: bool = option(False, "The texts are second lines; answer by first lines.", "couplet")

    def __post_init__(self) -> None:
        super().__post_init__()
        avoid = tuple(as_texts(self.avoid, name="word to avoid"))
        object.__setattr__(self, "avoid", avoid)  # the dataclass is frozen
        check_choice("script", self.script, SCRIPTS)
        self.form(FormConfig())
        if self.keep is not None and self.prefix is not None:
            raise ConfigError("is for answers without a pattern to keep", option="prefix")
        check(len(self.avoid) <= MAX_AVOIDED, "avoid", len(self.avoid), "at most 10,000 words")
        for word in self.avoid:
            is_short = 1 <= len(word) <= MAX_AVOIDED_LENGTH
            check(is_short, "avoid", word, f"words of 1 to {MAX_AVOIDED_LENGTH} characters")

    @classmethod
    def extended(cls, request: GenerationRequest) -> Self:
        """Returns ``request`` itself, or with the options of the form at their defaults."""
        if isinstance(request, cls):
            return request
        return cls(**{item.name: getattr(request, item.name) for item in fields(request)})

    def form(self, config: FormConfig) -> FormConfig:
        """Returns the model's ``config`` with the options of this request in place of its own."""
        return replace(config, tones=self.tones or config.tones, rhyme=self.rhyme or config.rhyme)


def read_avoided(path: Path) -> tuple[str, ...]:
    """Returns the words of a file, one a line. Raises a CorpusError for too many or long ones."""
    words = []
    for number, line in enumerate(iter_lines(path), start=1):
        word = "".join(line.split())
        if len(word) > MAX_AVOIDED_LENGTH:
            reason = f"{len(word)} characters; a word to avoid has at most {MAX_AVOIDED_LENGTH}"
            raise CorpusError(path, reason, number)
        if word and all(map(is_punctuation, word)):
            raise CorpusError(path, "no word, only punctuation marks", number)
        words += [word] if word else []
    if len(words) > MAX_AVOIDED:
        raise CorpusError(path, f"{len(words):,} words to avoid; at most {MAX_AVOIDED:,} are read")
    return tuple(words)
