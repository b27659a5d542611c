"""The ids of the special tokens, shared by the model, the searches and the loss."""

from typing import NamedTuple


class SpecialIds(NamedTuple):
    """The ids of the four special tokens."""

    unk: int = 0
    pad: int = 1
    bos: int = 2
    eos: int = 3
