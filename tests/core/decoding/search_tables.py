"""Hand-written models for the searches: tables of the probabilities after each prefix.

``a``, ``b``, ``c`` and ``.`` stand for three words and ``<eos>``. ``{"": {"a": 0.7, ".": 0.3}}`` is
a model whose output begins with "a" or ends at once. After a prefix that is not in the table the
output ends; after one with an empty row every token is forbidden. Searches normalize the rows.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from core.decoding.beam_search import beam_search, length_normalizer
from core.decoding.greedy_search import greedy_search
from core.decoding.search import Constraint, Hypothesis
from core.special_ids import EOS_ID

IDS = {".": EOS_ID, "a": 4, "b": 5, "c": 6}
LETTERS = {number: letter for letter, number in IDS.items()}
VOCABULARY_SIZE = 7
ENDS = {".": 1.0}
FAR = 9

Table = Mapping[str, Mapping[str, float]]


class Histories:
    """A search state that stores the tokens of every row, so a wrong ``select`` is noticed."""

    def __init__(self, sentences: int) -> None:
        self.sentences = list(range(sentences))
        self.rows: list[list[int]] = [[] for _ in range(sentences)]
        self.steps = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        self.rows = [list(self.rows[row]) for row in rows.tolist()]
        if sentences is not None:
            self.sentences = [self.sentences[i] for i in sentences.tolist()]


def reader(tables: Sequence[Table]) -> Callable[[Tensor, Histories], Tensor]:
    """Returns the ``step`` that looks up the logits of each sentence in its own table."""

    def step(tokens: Tensor, state: Histories) -> Tensor:
        state.steps += 1
        width = len(state.rows) // len(state.sentences)
        # Special tokens have the best scores everywhere, and must still never be chosen.
        logits = torch.full((len(tokens), VOCABULARY_SIZE), 50.0)
        logits[:, list(LETTERS)] = -math.inf
        for row, (history, token) in enumerate(zip(state.rows, tokens.tolist(), strict=True)):
            history.append(token)
            prefix = "".join(LETTERS.get(number, "?") for number in history[1:])
            table = tables[state.sentences[row // width]]
            for letter, probability in table.get(prefix, ENDS).items():
                logits[row, IDS[letter]] = math.log(probability)
        return logits

    return step


def forbidding(*tokens: int, vocab_size: int = VOCABULARY_SIZE) -> Constraint:
    """Returns a constraint that forbids ``tokens`` everywhere."""
    is_forbidden = torch.isin(torch.arange(vocab_size), torch.tensor(tokens))
    return lambda outputs, sentences: is_forbidden.expand(len(sentences), -1)


def greedy(
    *tables: Table, max_lengths: Sequence[int] | None = None, **options: Any
) -> list[Hypothesis]:
    """Runs greedy search with one table for each sentence."""
    limits = torch.tensor([FAR] * len(tables) if max_lengths is None else max_lengths)
    return greedy_search(reader(tables), Histories(len(tables)), max_lengths=limits, **options)


def beam(
    *tables: Table, max_lengths: Sequence[int] | None = None, **options: Any
) -> list[list[Hypothesis]]:
    """Runs beam search with one table for each sentence, by default without a length penalty."""
    limits = torch.tensor([FAR] * len(tables) if max_lengths is None else max_lengths)
    options = {"length_penalty": 0.0, **options}
    return beam_search(reader(tables), Histories(len(tables)), max_lengths=limits, **options)


def texts(hypotheses: Sequence[Hypothesis]) -> list[str]:
    """Returns the hypotheses as texts; a special token in one is an error."""
    return ["".join(LETTERS[number] for number in one.tokens) for one in hypotheses]


def probabilities(hypotheses: Sequence[Hypothesis]) -> list[float]:
    return [math.exp(one.log_prob) for one in hypotheses]


def random_table(seed: int, *, length: int, share_of_zeros: float = 0.2) -> Table:
    """Returns random probabilities after every prefix of up to ``length`` words."""
    rng = random.Random(seed)

    def row() -> dict[str, float]:
        letters = [letter for letter in IDS if rng.random() >= share_of_zeros]
        return {letter: rng.random() for letter in letters} or {rng.choice(list(IDS)): 1.0}

    prefixes = [""]
    for _ in range(length):
        prefixes += [p + x for p in prefixes for x in "abc" if len(p) == len(prefixes[-1])]
    return {prefix: row() for prefix in prefixes}


def all_outputs(
    table: Table, limit: int, prefix: str = "", before: float = 1.0
) -> Iterator[tuple[str, float, int]]:
    """Yields every output of ``table``: its text, its probability, the length of its score."""
    if len(prefix) == limit:
        yield prefix, before, limit
        return
    row = table.get(prefix, ENDS)
    for letter, share in row.items():
        probability = before * share / sum(row.values())
        if letter == ".":
            yield prefix, probability, len(prefix) + 1
        else:
            yield from all_outputs(table, limit, prefix + letter, probability)


def best_of_all(table: Table, limit: int, alpha: float) -> list[tuple[str, float]]:
    """Returns the texts and scores of all outputs, the best first."""
    scored = [
        (text, math.log(probability) / length_normalizer(length, alpha))
        for text, probability, length in all_outputs(table, limit)
    ]
    return sorted(scored, key=lambda text_and_score: -text_and_score[1])
