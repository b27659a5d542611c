"""Measuring a couplet writer: character BLEU, perplexity, and the share of kept rules."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sacrebleu

from core.errors import CorpusError
from core.progress import Progress
from tasks.couplet.dataset import LoadCoupletDataset
from tasks.couplet.predict import CoupletWriter
from tasks.couplet.rules import RULES, check
from tasks.task import Report


@dataclass(frozen=True, kw_only=True)
class CoupletReport(Report):
    """Character BLEU, loss (nats a character), and the shares of couplets that keep each rule.

    ``refused`` first lines, such as those with a coarse word, are left out; the loss is of all.
    """

    couplets: int
    refused: int | None = None
    bleu: float
    bleu_signature: str
    loss: float
    perplexity: float
    rules: dict[str, float]
    rules_of_references: dict[str, float]

    @property
    def headline(self) -> str:
        form = 100 * min(self.rules["length"], self.rules["punctuation"])
        return f"form {form:.1f}%, perplexity {self.perplexity:.1f} on {self.split}"

    def table(self) -> str:
        lines = [
            f"split           {self.split} ({self.couplets:,} couplets)",
            f"character BLEU  {self.bleu:.2f}   {self.bleu_signature}",
            f"perplexity      {self.perplexity:.2f}  (loss {self.loss:.4f} nats a character)",
            "",
            "rule         kept    by the references",
        ]
        if self.refused:
            lines.insert(1, f"left out        {self.refused:,} first lines, which are refused")
        for rule, share in self.rules.items():
            reference = self.rules_of_references[rule]
            lines.append(f"{rule:<11}  {100 * share:5.1f}%   {100 * reference:5.1f}%")
        return "\n".join(lines)


def evaluate(
    writer: CoupletWriter, dataset: LoadCoupletDataset, split: str, **options: Any
) -> CoupletReport:
    """Returns the report on one split, or raises a CorpusError if all first lines are refused."""
    read = dataset.read(split)
    pairs = [pair for pair in read if writer.refusal(pair.source) is None]
    if not pairs:
        raise CorpusError(dataset.folder, f"every first line of {split} is refused")
    with Progress(len(pairs), split, unit="line") as bar:
        answers = writer.predict([first for first, _ in pairs], **options, on_batch=bar.advance)
    measured = writer.measure(dataset.encoded(split, max_len=writer.max_len))
    metric = sacrebleu.BLEU(tokenize="char")
    bleu = metric.corpus_score([a.second for a in answers], [[second for _, second in pairs]])
    return CoupletReport(
        split=split,
        couplets=len(pairs),
        refused=len(read) - len(pairs) or None,
        bleu=bleu.score,
        bleu_signature=str(metric.get_signature()),
        loss=measured["loss"],
        perplexity=math.exp(measured["loss"]),
        rules=shares([answer.rules for answer in answers]),
        rules_of_references=shares([check(first, second) for first, second in pairs]),
    )


def shares(checks: Sequence[Mapping[str, bool]]) -> dict[str, float]:
    """Returns for each rule the share of couplets, 0 to 1, that keep it."""
    return {rule: sum(kept[rule] for kept in checks) / len(checks) for rule in RULES}
