"""A decoder that gets one position at a time, with the state of decoding."""

from torch import Tensor

from core.inference.incremental_model import DecoderState, added_mask
from core.inference.key_value_cache import Lineage
from core.inference.packed_transformer import PackedDecoder
from core.model.transformer import MyTransformerDecoder


class Stepwise:
    """Runs ``decoder`` with ``memory`` ``[S, B, D]``, whose padding is ``is_pad`` ``[B, S]``."""

    def __init__(
        self, decoder: MyTransformerDecoder, memory: Tensor, is_pad: Tensor | None = None
    ) -> None:
        memory = memory.detach()
        self.decoder = PackedDecoder(decoder)
        self.state = DecoderState(
            caches=self.decoder.init_cache(memory, is_pad),
            memory_mask=None if is_pad is None else added_mask(is_pad, memory),
            lineage=Lineage(memory),
            sentences=memory.shape[1],
        )
        self.caches = self.state.caches

    def __call__(self, x: Tensor) -> Tensor:
        """Maps the newest position of every row, ``[R, D]``, to ``[R, D]``."""
        lineage = self.state.lineage
        lineage.append()
        return self.decoder(x, self.caches, lineage, self.state.memory_mask)
