"""Training a couplet model."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.files import is_file
from data.codec import TextCodec
from tasks.couplet.config import CoupletConfig, CoupletTransformerConfig
from tasks.couplet.dataset import TOKENIZER, LoadCoupletDataset
from tasks.couplet.evaluate import evaluate
from tasks.couplet.model import CoupletModel
from tasks.couplet.predict import CoupletWriter
from tasks.runs.checkpoint_folder import CONFIG_FILE, describe
from tasks.runs.new_vocabulary import TokenWeights
from tasks.runs.run import Prepared
from tasks.seq2seq.objective import measure_pairs, pair_loss

MakeModel = Callable[[int, CoupletTransformerConfig], SequenceToSequence]


def prepare(
    config: CoupletConfig,
    *,
    corpus: Path,
    out: Path,
    device: torch.device,
    vocabulary: Path | None,
    make_model: MakeModel = CoupletModel,
) -> Prepared:
    """Prepares the training of a couplet model; see :class:`tasks.runs.run.Prepare`.

    Args:
        make_model: makes the model for the size of the vocabulary and the sizes of the Transformer.
    """
    codec = None if vocabulary is None else TextCodec.load(vocabulary, tokenizer=TOKENIZER)
    dataset = LoadCoupletDataset(
        corpus, config.data, seed=config.train.seed, save_to=out, codec=codec
    )
    model = make_model(len(dataset.codec.vocabulary), config.model).to(device)
    has_test = dataset.has("test")
    if has_test:
        dataset.read("test")  # an error in it is raised now, not after the training
    val_pairs = dataset.encoded("val", max_len=config.model.max_len)
    batch_tokens = config.train.batch_tokens

    def validate() -> dict[str, float]:
        measured = measure_pairs([model], val_pairs, batch_tokens=batch_tokens, device=device)
        return {
            "val_loss": measured["loss"],
            "val_accuracy": measured["accuracy"],
            "val_perplexity": math.exp(measured["loss"]),
        }

    def test(final: CoupletConfig) -> dict[str, Any]:
        if not has_test:
            return {}
        writer = CoupletWriter([model], dataset.codec, final, device)
        return evaluate(writer, dataset, "test")

    def token_weights(initial: Path) -> TokenWeights:
        codecs = TextCodec.load(initial, tokenizer=TOKENIZER), dataset.codec
        names = ("src_embedding.embedding.weight", "generator.bias")
        output = () if config.model.tie_output else ("generator.weight",)
        return dict.fromkeys((*names, *output), codecs)

    return Prepared(
        model=model,
        data=dataset.training_data(
            batch_tokens=batch_tokens, seed=config.train.seed, max_len=config.model.max_len
        ),
        loss=pair_loss(model, config.train.label_smoothing),
        validate=validate,
        metric="val_loss",
        evaluate=test,
        files=dataset.files("train", "val", *(["test"] if has_test else ())),
        new_weights=_new_weights(model, vocabulary),
        token_weights=token_weights,
    )


def _new_weights(model: SequenceToSequence, initial: Path | None) -> list[str]:
    """Returns the names of the weights of the alignment, if the model in ``initial`` has none."""
    if initial is None or not is_file(initial / CONFIG_FILE):
        return []
    if describe(initial)["model"].get("aligned", False):
        return []
    return [name for name, _ in model.named_parameters() if name.startswith("alignment.")]
