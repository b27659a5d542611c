"""Choosing how a trained translator searches, on the validation data.

The best length penalty depends on the languages, the corpus and the model: one that gains a point
of BLEU for one model can cost another three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.decoding.config import GenerationConfig
from tasks.runs.training import SearchChoice
from tasks.seq2seq.request import GREEDY, GenerationRequest
from tasks.translation.dataset import spaced
from tasks.translation.evaluate import bleu

if TYPE_CHECKING:
    from tasks.translation.predict import Translator

LENGTH_PENALTIES = (0.0, 0.5, 1.0, 1.5, 2.0)
MAX_SENTENCES = 1000
"""The most validation sentences that are translated with each candidate."""


def choose_search(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> SearchChoice:
    """Returns the search with the highest BLEU on at most :data:`MAX_SENTENCES` of the pairs.

    They are taken at even distances, because a corpus can consist of different parts. The
    candidates are greedy search and, if the configuration has a beam, a beam of that size with its
    own length penalty and :data:`LENGTH_PENALTIES`. The first of equally good ones wins.
    """
    sources, references = (spaced(texts, MAX_SENTENCES) for texts in (sources, references))

    def measure(request: GenerationRequest) -> tuple[GenerationConfig, float]:
        translations = [found.text for found in translator.generate(sources, request)]
        return request.resolve(translator.generation), bleu(translations, references)[0]

    configured = translator.generation
    greedy = measure(GREEDY.replaced(length_penalty=0.0))
    candidates = [greedy]
    if configured.beam_size > 1 and not configured.sample:
        penalties = dict.fromkeys((configured.length_penalty, *LENGTH_PENALTIES))
        candidates += [measure(GenerationRequest(length_penalty=value)) for value in penalties]
    generation, value = max(candidates, key=lambda candidate: candidate[1])
    return SearchChoice(generation, value, greedy[1])
