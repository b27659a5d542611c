"""Exporting a translation model to CTranslate2, an inference engine in C++.

``ctranslate2.Translator`` reads the exported folder. Its inputs are tokens: those of
``sentencepiece.model``, which is copied into the folder, or those of the tokenizer that the model
was trained with. The weights and the outputs are the same, if CTranslate2 is told not to produce
``<unk>``, ``<pad>`` and ``<bos>``: ``disable_unk=True, suppress_sequences=[["<pad>"], ["<bos>"]]``.
"""

import importlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from core.errors import UserError
from core.model.attention import MyMultiheadAttention
from core.storage.files import exists, new_folder
from data.vocabulary import BOS, EOS, UNK

if TYPE_CHECKING:
    from tasks.translation.predict import Translator


def to_ctranslate2(
    translator: "Translator", folder: Path, out: Path, *, quantization: str = "float32"
) -> None:
    """Writes the model of ``translator``, which is that in ``folder``, into the new folder ``out``.

    ``quantization`` is how CTranslate2 stores weights: float32, float16, int16 or int8. Raises a
    UserError if ``out`` exists, or if the package ctranslate2 is not installed.
    """
    if exists(out):
        raise UserError(f"{out}: is there already; name another folder")
    import_ctranslate2()
    spec = _specification(translator)
    spec.register_source_vocabulary(list(translator.source.vocabulary.itos))
    spec.register_target_vocabulary(list(translator.target.vocabulary.itos))
    spec.config.unk_token = UNK
    spec.config.bos_token = spec.config.decoder_start_token = BOS
    spec.config.eos_token = EOS
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    with new_folder(out) as temporary:
        try:
            spec.save(str(temporary))
            for path in folder.glob("sentencepiece*.model"):
                shutil.copy(path, temporary)
        except RuntimeError as error:  # of CTranslate2, for example for a full disk
            raise UserError(f"{out}: cannot write: {error}") from error


def import_ctranslate2() -> Any:
    """Returns the package ctranslate2. Raises a UserError if it is not installed."""
    try:
        return importlib.import_module("ctranslate2")
    except ImportError as error:
        message = "the package ctranslate2 is needed: pip install 'transformer-suite[export]'"
        raise UserError(message) from error


def _specification(translator: "Translator") -> Any:
    """Returns the weights of the model under the names of CTranslate2."""
    from ctranslate2.specs import TransformerSpec, common_spec, transformer_spec

    model, config = translator.models[0], translator.config.model
    table = model.positional_encoding.table
    activations = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU}
    options = {
        "pre_norm": True,
        "activation": activations[config.activation],
        "rotary_dim": 0 if table is None else None,  # 0: all dimensions of a head
        "rotary_interleave": False,
    }
    spec = TransformerSpec(
        transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, config.nhead, **options),
        transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, config.nhead, **options),
    )
    if table is None:  # CTranslate2's encoder always adds some
        spec.encoder.position_encodings.encodings = np.zeros(
            (config.max_len, config.d_model), dtype=np.float32
        )
    else:
        for side in (spec.encoder, spec.decoder):
            side.position_encodings.encodings = _as_array(table.squeeze(1))
    encoder, decoder = model.transformer.encoder, model.transformer.decoder
    sides: tuple[tuple[Any, Any], ...] = ((spec.encoder, encoder), (spec.decoder, decoder))
    for side, stack in sides:
        # Set only now: CTranslate2 creates the last norm for pre-norm models alone.
        side.pre_norm = config.norm_first
        _copy_norm(side.layer_norm, stack.norm)
        for ours, theirs in zip(stack.layers, side.layer, strict=True):
            _copy_attention(theirs.self_attention, ours.self_attn, ours.norm1, [3])
            if stack is decoder:
                _copy_attention(theirs.attention, ours.multihead_attn, ours.norm2, [1, 2])
            _copy_norm(theirs.ffn.layer_norm, ours.norm3 if stack is decoder else ours.norm2)
            _copy_linear(theirs.ffn.linear_0, ours.linear1.weight, ours.linear1.bias)
            _copy_linear(theirs.ffn.linear_1, ours.linear2.weight, ours.linear2.bias)
    spec.encoder.embeddings[0].weight = _as_array(model.src_embedding.weight)
    spec.decoder.embeddings.weight = _as_array(model.tgt_embedding.weight)
    _copy_linear(spec.decoder.projection, model.generator.weight, model.generator.bias)
    return spec


def _copy_attention(
    theirs: Any, ours: MyMultiheadAttention, norm: nn.LayerNorm, parts: list[int]
) -> None:
    """Copies an attention; ``parts`` are the numbers of projections in each of their layers."""
    _copy_norm(theirs.layer_norm, norm)
    sizes = [count * ours.embed_dim for count in parts]
    weights, biases = ours.in_proj_weight.split(sizes), ours.in_proj_bias.split(sizes)
    for linear, weight, bias in zip(theirs.linear, weights, biases, strict=False):
        _copy_linear(linear, weight, bias)
    _copy_linear(theirs.linear[-1], ours.out_proj.weight, ours.out_proj.bias)


def _copy_norm(theirs: Any, ours: nn.LayerNorm) -> None:
    theirs.gamma, theirs.beta = _as_array(ours.weight), _as_array(ours.bias)


def _copy_linear(theirs: Any, weight: Tensor, bias: Tensor) -> None:
    theirs.weight, theirs.bias = _as_array(weight), _as_array(bias)


def _as_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().float().cpu().numpy()
