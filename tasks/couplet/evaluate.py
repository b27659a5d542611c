"""Measuring a couplet writer: character BLEU, perplexity, and the share of kept rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sacrebleu

from tasks.couplet.dataset import LoadCoupletDataset
from tasks.couplet.predict import CoupletWriter
from tasks.couplet.rules import RULES, check
from tasks.runs.checkpoint_folder import Folders
from tasks.seq2seq.objective import measure_pairs
from tasks.seq2seq.request import DEFAULT_REQUEST, GenerationRequest


def evaluate(
    writer: CoupletWriter,
    dataset: LoadCoupletDataset,
    split: str,
    request: GenerationRequest = DEFAULT_REQUEST,
) -> dict[str, Any]:
    """Returns the report on one split, whose first lines are answered as ``request`` says."""
    pairs = dataset.read(split)
    answers = writer.generate([first for first, _ in pairs], request)
    measured = measure_pairs(
        writer.models,
        dataset.encoded(split, max_len=writer.max_len),
        batch_tokens=writer.config.train.batch_tokens,
        device=writer.device,
    )
    metric = sacrebleu.BLEU(tokenize="char")
    bleu = metric.corpus_score([a.second for a in answers], [[second for _, second in pairs]])
    perplexity = math.exp(measured["loss"])
    rules = shares([answer.rules for answer in answers])
    return {
        "split": split,
        "couplets": len(pairs),
        "bleu": bleu.score,
        "bleu_signature": str(metric.get_signature()),
        "loss": measured["loss"],
        "perplexity": perplexity,
        "rules": rules,
        "rules_of_references": shares([check(first, second) for first, second in pairs]),
        "headline": (
            f"form {100 * min(rules['length'], rules['punctuation']):.1f}%, "
            f"perplexity {perplexity:.1f} on {split}"
        ),
    }


def shares(checks: Sequence[Mapping[str, bool]]) -> dict[str, float]:
    """Returns for each rule the share of couplets, 0 to 1, that keep it."""
    return {rule: sum(kept[rule] for kept in checks) / len(checks) for rule in RULES}


def run(
    model: Folders,
    data: str | Path,
    *,
    split: str | None = None,
    device: str = "auto",
    request: GenerationRequest = DEFAULT_REQUEST,
) -> dict[str, Any]:
    """Measures a model on a split of the corpus ``data`` and returns the report.

    Args:
        model: what :meth:`CoupletWriter.load` takes.
        split: test (the default), val or train.
    """
    writer = CoupletWriter.load(model, device=device)
    config = writer.config
    dataset = LoadCoupletDataset(
        Path(data), config.data, seed=config.train.seed, codec=writer.codec
    )
    if split is not None:
        dataset.check_split(split)
    return evaluate(writer, dataset, split or "test", request)


def as_table(report: Mapping[str, Any]) -> str:
    """Returns the report as a table for people."""
    lines = [
        f"split           {report['split']} ({report['couplets']:,} couplets)",
        f"character BLEU  {report['bleu']:.2f}   {report['bleu_signature']}",
        f"perplexity      {report['perplexity']:.2f}  (loss {report['loss']:.4f} nats a character)",
        "",
        "rule         kept    by the references",
    ]
    for rule, share in report["rules"].items():
        reference = report["rules_of_references"][rule]
        lines.append(f"{rule:<11}  {100 * share:5.1f}%   {100 * reference:5.1f}%")
    return "\n".join(lines)
