"""The answer to a first line."""

from dataclasses import dataclass, field
from typing import Any

from tasks.couplet.rules import RULES
from tasks.seq2seq.n_best import Ranked


@dataclass(frozen=True)
class Couplet(Ranked):
    """A second line, its score, and the rules that it breaks.

    ``score`` is the score of the search: the log-probability, in beam search divided by the length
    normalizer; or that of the candidates' ranking. ``broken`` names what breaks each broken rule.
    ``note`` says that no good answer was found, which characters the model does not know, which
    words have a wrong tone, where the form asks for tones that no answer had, and which rules the
    parts of a long line do not keep together.
    ``others`` are the next best second lines if ``n_best`` or ``candidates`` asked for more.
    """

    second: str
    score: float
    broken: dict[str, str] = field(default_factory=dict)
    note: str = ""
    others: "tuple[Couplet, ...]" = ()

    @property
    def rules(self) -> dict[str, bool]:
        """Whether the couplet keeps each rule (:mod:`tasks.couplet.rules`)."""
        return {rule: rule not in self.broken for rule in RULES}

    def record(self) -> dict[str, Any]:
        """Returns the fields of the JSON output. An empty answer has neither score nor rules."""
        return {
            "second": self.second,
            "score": self.score if self.second else None,
            "rules": self.rules if self.second else {},
            "broken": self.broken,
            "note": self.note,
        }
