"""Attention for plots: the weights of the model, labeled with tokens."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import ConfigError
from core.inference.attention_maps import attention_weights
from data.vocabulary import SPECIALS, Vocabulary
from tasks.couplet.predict import CoupletWriter
from tasks.seq2seq.labeled_attention import attention
from tasks.translation.predict import Translator
from tests.tasks.tiny_models import CPU, network

Models = Callable[[str], Path]

SOURCE, TARGET = (Vocabulary([*SPECIALS, *letters]) for letters in ("abcdefghijklmnop", "ABCDEFGH"))


def test_the_weights_are_the_models_and_the_tokens_are_labeled() -> None:
    model = network()
    found = attention(model, [4, 5, 6], [8, 9], (SOURCE, TARGET), CPU)
    assert found.source == ["a", "b", "c", "<eos>"]
    assert found.target == ["<bos>", "E", "F"]
    assert found.written == ["E", "F", "<eos>"]
    src, tgt = torch.tensor([[4, 5, 6, 3]]).t(), torch.tensor([[2, 8, 9]]).t()
    weights = attention_weights(model, src, tgt)
    for shown, expected in zip((found.encoder, found.decoder, found.cross), weights, strict=True):
        assert isinstance(shown, np.ndarray)
        assert np.array_equal(shown, expected[:, 0].numpy())
    assert found.encoder.shape == (1, 2, 4, 4)
    assert found.decoder.shape == (1, 2, 3, 3)
    assert found.cross.shape == (1, 2, 3, 4)


def test_each_model_of_an_ensemble_has_its_own(tiny_models: Models) -> None:
    folder = tiny_models("translation")
    ensemble = Translator.load([folder, folder], device="cpu")
    with pytest.raises(ConfigError, match="load the ensemble's models one by one"):
        ensemble.attention("Ein Hund sieht das Boot.")


def test_a_translation_is_shown_segment_by_segment(tiny_models: Models) -> None:
    translator = Translator.load(tiny_models("translation"), device="cpu")
    texts = ["Ein Hund sieht das Boot.", "Eine Frau malt das Meer."]
    segments = translator.attention(" ".join(texts))
    assert len(segments) == 2
    for shown, text in zip(segments, texts, strict=True):
        assert "".join(shown.source) == "▁" + text.replace(" ", "▁") + "<eos>"
        written = translator.target.tokenizer.detokenize(shown.written[:-1])
        assert written == translator.translate([text])[0]
        assert shown.cross.shape[2:] == (len(shown.target), len(shown.source))
        for weights in (shown.encoder, shown.decoder, shown.cross):
            assert np.allclose(weights.sum(axis=-1), 1.0, atol=1e-5)
    assert translator.attention("") == []
    (begun,) = translator.attention(texts[0], prefix="A cat", beam_size=1)
    assert translator.target.tokenizer.detokenize(begun.written).startswith("A cat")


def test_an_answer_is_shown_character_by_character(tiny_models: Models) -> None:
    writer = CoupletWriter.load(tiny_models("couplet"), device="cpu")
    (shown,) = writer.attention("天地山水", beam_size=2)
    assert shown.source == [*"天地山水", "<eos>"]
    assert "".join(shown.written[:-1]) == writer.answer(["天地山水"], beam_size=2)[0]
    assert shown.cross.shape[2:] == (5, 5)
