"""Options of ``torch.nn`` that the classes here do not have, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

_CAUSAL = "leave it out and pass the mask itself: generate_square_subsequent_mask(length)"

# The default in torch.nn, and what to write instead of another value.
_OPTIONS: dict[str, tuple[object, str]] = {
    "batch_first": (False, "inputs are [length, B, D]: transpose them with x.transpose(0, 1)"),
    "bias": (True, "the layers always have biases: zero the ones you do not want"),
    "device": (None, "move the module with .to(device)"),
    "dtype": (None, "convert the module with .to(dtype)"),
    "custom_encoder": (None, "assign it to model.encoder"),
    "custom_decoder": (None, "assign it to model.decoder"),
    "kdim": (None, "project the keys to width D first"),
    "vdim": (None, "project the values to width D first"),
    "add_bias_kv": (False, "append the additional key and value to the inputs"),
    "add_zero_attn": (False, "append the additional key and value to the inputs"),
    "is_causal": (False, _CAUSAL),
    "src_is_causal": (False, _CAUSAL),
    "tgt_is_causal": (False, _CAUSAL),
    "memory_is_causal": (False, _CAUSAL),
    "maxlen": (None, "write max_len=..."),
}

# They only choose among implementations in torch.nn.
_WITHOUT_EFFECT = ("enable_nested_tensor", "mask_check")


def check_torch_options(options: Mapping[str, object]) -> None:
    """Accepts options of ``torch.nn`` that have their default value or no effect here.

    Raises:
        ValueError: another value; the message says what to write instead.
        TypeError: an option that ``torch.nn`` does not have either.
    """
    for name, value in options.items():
        if name in _WITHOUT_EFFECT:
            continue
        if name not in _OPTIONS:
            raise TypeError(f"unexpected keyword argument {name!r}")
        default, instead = _OPTIONS[name]
        if value is not None and value != default:
            raise ValueError(f"{name}={value!r} is not supported; {instead}")
