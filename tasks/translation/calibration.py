"""What a trained translator learns of its own translations and of the texts it knows.

Fitted after the training, on texts of the corpus, and saved beside the weights:

* how probable it is that a translation is good (:mod:`.confidence`), on validation pairs;
* how like the training data a source is (:mod:`tasks.familiarity`), from the encoder's output;
* which texts are in the target language already (:mod:`.language`), from both sides.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from core.errors import CorpusError, UserError
from core.progress import log
from tasks.familiarity import MAX_TEXTS, Familiarity
from tasks.runs.checkpoint_folder import CONFIDENCE_FILE, LANGUAGE_FILE
from tasks.seq2seq.request import GenerationRequest
from tasks.translation.confidence import LEAST_OF_A_KIND, Confidence, are_good, features_of
from tasks.translation.dataset import ParallelCorpus, spaced
from tasks.translation.language import LanguageDetector
from tasks.translation.segments import encoded_segments

if TYPE_CHECKING:
    from tasks.translation.predict import Translator

MAX_PAIRS = 2000
"""The most validation pairs that are translated."""
MAX_LANGUAGE_PAIRS = 20_000
"""The most training pairs that the languages are learned from."""

Pairs = Sequence[tuple[str, str]]
"""Source and target texts."""


def calibrate(
    translator: "Translator",
    train: Pairs,
    held_out: Pairs,
    folder: Path,
    unlike: Sequence[str] = (),
) -> None:
    """Fits all three and saves them in the checkpoint folder ``folder``.

    What is saved belongs to the weights; other weights need a new calibration. ``train`` is what
    the model was trained on, or a part of it; ``held_out`` are pairs of the validation data, which
    are translated with the model's own options. ``unlike`` are sources of other kinds than the
    training data: such texts become unfamiliar. Raises a UserError if no pair can be translated.
    """
    _fit_language(train, held_out, folder)
    sources, references = zip(*spaced(held_out, MAX_PAIRS), strict=True)
    found = translator.search(sources, GenerationRequest(pass_through=False, placeholders=False))
    # A text of several segments has one reference for all of them.
    rows = zip(found.texts.segments, found.outputs, references, strict=True)
    single = [(ids[0], best.hypotheses[0], ref) for ids, (best, *_), ref in rows if len(ids) == 1]
    if not single:
        raise UserError("no validation text is a single sentence: there is nothing to calibrate on")
    segments, best, references = zip(*single, strict=True)
    is_good = are_good([translator.target.decode(each.tokens) for each in best], references)
    good, count = sum(is_good), len(is_good)
    if min(good, count - good) >= LEAST_OF_A_KIND:
        features = [features_of(*pair) for pair in zip(segments, best, strict=True)]
        Confidence.fit(features, is_good).save(folder)
        log(f"confidence fitted on {count:,} translations; {good:,} of them are good")
    else:
        (folder / CONFIDENCE_FILE).unlink(missing_ok=True)
        log(
            f"translations get no confidence: {good:,} of {count:,} validation translations are "
            f"good, and at least {LEAST_OF_A_KIND} of each kind are needed to tell them apart"
        )
    encode, size = translator.source.encode, translator.max_source_tokens
    texts = [source for source, _ in spaced(train, MAX_TEXTS)]
    known, others = (
        [ids for text in side for ids in encoded_segments(text, encode, size)]
        for side in (texts, unlike)
    )
    states, held_out_states = map(translator.memory_means, (known, segments))
    lengths = (torch.tensor([len(ids) + 1.0 for ids in side]) for side in (known, segments))
    contrast = translator.memory_means(others) if others else None
    pair = next(lengths), next(lengths)
    Familiarity.fit(states, held_out_states, pair, others=contrast).save(folder)
    log(f"familiarity fitted on {len(known):,} training and {count:,} held-out sentences")


def _fit_language(train: Pairs, held_out: Pairs, folder: Path) -> None:
    """Fits the detector of the languages and saves it, if it is useful on the held-out pairs."""
    detector = LanguageDetector.fit(*zip(*spaced(train, MAX_LANGUAGE_PAIRS), strict=True))
    sources, targets = zip(*held_out, strict=True)
    if detector.is_useful(sources, targets):
        detector.save(folder)
        log(
            f"target language recognized in {100 * detector.recognized(targets):.1f}% of the "
            f"held-out targets and {100 * detector.recognized(sources):.2f}% of the sources"
        )
    else:
        (folder / LANGUAGE_FILE).unlink(missing_ok=True)
        log("the two languages cannot be told apart for sure: all texts are translated")


def calibrate_folder(
    folder: Path, corpora: Sequence[Path], unlike: Sequence[str] = (), *, device: str
) -> None:
    """Calibrates the model in ``folder`` on the splits ``train`` and ``val`` of ``corpora``.

    Every corpus contributes equally many pairs, if it has them. Raises a CorpusError without any.
    """
    from tasks.translation.predict import Translator

    translator = Translator.load(folder, device=device)
    config = translator.config
    train: list[tuple[str, str]] = []
    held_out: list[tuple[str, str]] = []
    for corpus in corpora:
        dataset = ParallelCorpus(
            corpus, replace(config.data, extra=()), seed=config.train.seed, **translator.codecs
        )
        train += spaced(dataset.read("train"), MAX_LANGUAGE_PAIRS // len(corpora))
        held_out += spaced(dataset.read("val"), MAX_PAIRS // len(corpora))
    if not held_out:
        raise CorpusError(corpora[0], "there are no validation pairs")
    calibrate(translator, train, held_out, folder, unlike)
