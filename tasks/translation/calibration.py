"""What a trained translator learns of its own translations and of the texts it knows.

Fitted after the training, on texts of the corpus, and saved beside the weights:

* how probable it is that a translation is good (:mod:`.confidence`), on validation pairs;
* how like the training data a source is (:mod:`tasks.familiarity`), from the encoder's output;
* which texts are in the target language already (:mod:`.language`), from both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from core.errors import CorpusError, UserError
from core.progress import log
from tasks.familiarity import MAX_TEXTS, Familiarity
from tasks.runs.checkpoint_folder import (
    CONFIDENCE_FILE,
    LANGUAGE_FILE,
    read_config,
)
from tasks.seq2seq.request import GenerationRequest
from tasks.translation.confidence import (
    LEAST_OF_A_KIND,
    Confidence,
    are_good,
    features_of,
)
from tasks.translation.config import TranslationConfig
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


@dataclass(frozen=True, kw_only=True)
class CalibrationData:
    """Pairs of source and target texts.

    Attributes:
        train: what the model was trained on, or a part of it.
        held_out: other pairs, from the validation data.
    """

    train: Pairs
    held_out: Pairs


def calibrate(translator: Translator, data: CalibrationData, folder: Path) -> None:
    """Fits all three and saves them in the checkpoint folder ``folder``.

    Translations are made as the model's own configuration says. What is saved belongs to the
    weights; other weights need a new calibration.

    Raises:
        UserError: no held-out text can be translated, or a file cannot be written.
    """
    held_out_pairs = spaced(data.held_out, MAX_PAIRS)
    sources, references = ([pair[side] for pair in held_out_pairs] for side in (0, 1))
    fit_language(data, folder)
    found = translator.search(sources, GenerationRequest(pass_through=False, placeholders=False))
    # A text of several segments has one reference for all of them.
    single = [number for number, segments in enumerate(found.texts.segments) if len(segments) == 1]
    if not single:
        raise UserError("no validation text is a single sentence: there is nothing to calibrate on")
    best = [found.outputs[number][0].hypotheses[0] for number in single]
    ids = [found.texts.segments[number][0] for number in single]
    is_good = are_good(
        [translator.target.decode(hypothesis.tokens) for hypothesis in best],
        [references[number] for number in single],
    )
    features = [features_of(*pair) for pair in zip(ids, best, strict=True)]
    good = sum(is_good)
    if min(good, len(is_good) - good) >= LEAST_OF_A_KIND:
        Confidence.fit(features, is_good).save(folder)
        log(f"confidence fitted on {len(single):,} translations; {good:,} of them are good")
    else:
        (folder / CONFIDENCE_FILE).unlink(missing_ok=True)
        log(
            f"translations get no confidence: {good:,} of {len(single):,} validation translations "
            f"are good, and at least {LEAST_OF_A_KIND} of each kind are needed to tell them apart"
        )
    encode, size = translator.source.encode, translator.max_source_tokens
    known = [
        segment
        for source, _ in spaced(data.train, MAX_TEXTS)
        for segment in encoded_segments(source, encode, size)
    ]
    states, held_out = (translator.memory_means(segments) for segments in (known, ids))
    Familiarity.fit(states, held_out, (token_counts(known), token_counts(ids))).save(folder)
    log(f"familiarity fitted on {len(known):,} training and {len(ids):,} held-out sentences")


def fit_language(data: CalibrationData, folder: Path) -> None:
    """Fits the detector of the languages and saves it, if it is useful on the held-out pairs."""
    train = spaced(data.train, MAX_LANGUAGE_PAIRS)
    detector = LanguageDetector.fit(*([pair[side] for pair in train] for side in (0, 1)))
    sources, targets = ([pair[side] for pair in data.held_out] for side in (0, 1))
    if detector.is_useful(sources, targets):
        detector.save(folder)
        log(
            f"target language recognized in {100 * detector.recognized(targets):.1f}% of the "
            f"held-out targets and {100 * detector.recognized(sources):.2f}% of the sources"
        )
    else:
        (folder / LANGUAGE_FILE).unlink(missing_ok=True)
        log("the two languages cannot be told apart for sure: all texts are translated")


def calibrate_folder(folder: Path, corpora: Sequence[Path], *, device: str) -> None:
    """Calibrates the model in ``folder`` on the splits ``train`` and ``val`` of ``corpora``.

    Every corpus contributes equally many pairs, if it has them.

    Raises:
        CheckpointError: there is no translation model in ``folder``, or it is damaged.
        CorpusError: a split is missing or not valid.
        UserError: as :func:`calibrate`.
    """
    from tasks.translation.predict import Translator

    config = read_config(folder, Translator.task, TranslationConfig)
    translator = Translator.load(folder, device=device)
    train: list[tuple[str, str]] = []
    held_out: list[tuple[str, str]] = []
    for corpus in corpora:
        dataset = ParallelCorpus(
            corpus,
            replace(config.data, extra=()),
            seed=config.train.seed,
            source=translator.source,
            target=translator.target,
        )
        for split, pairs, most in (
            ("train", train, MAX_LANGUAGE_PAIRS),
            ("val", held_out, MAX_PAIRS),
        ):
            pairs += spaced(dataset.read(split), most // len(corpora))
    if not held_out:
        raise CorpusError(corpora[0], "there are no validation pairs")
    calibrate(translator, CalibrationData(train=train, held_out=held_out), folder)


def token_counts(segments: Sequence[Sequence[int]]) -> Tensor:
    """Returns the number of tokens ``[N]`` of each segment, ``<eos>`` included."""
    return torch.tensor([len(ids) + 1.0 for ids in segments])
