"""Training a translation model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tasks.runs.new_vocabulary import TokenWeights
from tasks.runs.run import Prepared
from tasks.seq2seq.objective import measure_pairs, pair_loss
from tasks.seq2seq.request import GREEDY
from tasks.translation.calibration import (
    MAX_LANGUAGE_PAIRS,
    CalibrationData,
    calibrate,
)
from tasks.translation.config import TranslationConfig
from tasks.translation.dataset import LoadEnglishGermanDataset, load_codecs
from tasks.translation.evaluate import bleu, evaluate
from tasks.translation.model import TranslationModel
from tasks.translation.predict import Translator
from tasks.translation.search_choice import SearchChoice, choose_search


def prepare(
    config: TranslationConfig,
    *,
    corpus: Path,
    out: Path,
    device: torch.device,
    vocabulary: Path | None,
) -> Prepared:
    """Prepares the training of a translator; see :class:`tasks.runs.run.Prepare`."""
    codecs = (None, None) if vocabulary is None else load_codecs(vocabulary, config.data)
    dataset = LoadEnglishGermanDataset(
        corpus, config.data, seed=config.train.seed, save_to=out, source=codecs[0], target=codecs[1]
    )
    model = TranslationModel(
        len(dataset.source.vocabulary),
        len(dataset.target.vocabulary),
        config.model,
        share_embeddings=config.data.share_vocabulary,
    ).to(device)

    test_split = dataset.test_split()
    if test_split is not None:
        dataset.read(test_split)  # an error in it is raised now, not after the training
    val_sources, val_targets = dataset.read("val")
    val_pairs = dataset.encoded("val", max_len=config.model.max_len)
    batch_tokens = config.train.batch_tokens

    def translator(config: TranslationConfig = config) -> Translator:
        """Returns a translator with the current weights, of which it takes a snapshot."""
        return Translator([model], dataset.source, dataset.target, config, device)

    def validate() -> dict[str, float]:
        measured = measure_pairs([model], val_pairs, batch_tokens=batch_tokens, device=device)
        translations = [found.text for found in translator().generate(val_sources, GREEDY)]
        return {
            "val_loss": measured["loss"],
            "val_accuracy": measured["accuracy"],
            "val_bleu": bleu(translations, val_targets)[0],
        }

    def choose() -> SearchChoice:
        return choose_search(translator(), val_sources, val_targets)

    def calibrate_final(final: TranslationConfig) -> TranslationConfig:
        pairs = CalibrationData(
            train=dataset.natural_pairs(MAX_LANGUAGE_PAIRS),
            held_out=[*zip(val_sources, val_targets, strict=True)],
        )
        calibrate(translator(final), pairs, out)
        return final

    def test(final: TranslationConfig) -> dict[str, Any]:
        if test_split is None:
            return {}
        calibrated = translator(final)
        calibrated.load_calibration(out)
        return evaluate(calibrated, dataset, test_split)

    def token_weights(initial: Path) -> TokenWeights:
        source, target = load_codecs(initial, config.data)
        target_pair = (target, dataset.target)
        return {
            "src_embedding.embedding.weight": (source, dataset.source),
            "tgt_embedding.embedding.weight": target_pair,
            "generator.weight": target_pair,
            "generator.bias": target_pair,
        }

    return Prepared(
        model=model,
        data=dataset.training_data(
            batch_tokens=batch_tokens, seed=config.train.seed, max_len=config.model.max_len
        ),
        loss=pair_loss(model, config.train.label_smoothing),
        validate=validate,
        metric="val_bleu",
        evaluate=test,
        files=dataset.files("train", "val", *([test_split] if test_split else ())),
        calibrate=calibrate_final,
        choose_search=choose if config.train.choose_search else None,
        token_weights=token_weights,
    )
