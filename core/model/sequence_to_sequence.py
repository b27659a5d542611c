"""A whole encoder-decoder model over token ids (Vaswani et al. 2017, figure 1).

Translation and couplets are this model with different vocabularies. It derives every mask from the
ids themselves, so that a caller cannot forget one, in training and in decoding alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..inference.key_value_cache import LayerCache, Lineage
from ..inference.packed_linear import Int8Linear, MakeLinear, PackedLinear
from ..inference.packed_transformer import PackedDecoder, PackedEncoder
from ..special_ids import SpecialIds
from .attention_maps import AttentionWeights, recorded_weights, stack_weights
from .config import TransformerConfig
from .embedding import PositionalEncoding, TokenEmbedding
from .masks import generate_square_subsequent_mask, padding_mask
from .transformer import MyTransformer


class Memory(NamedTuple):
    """The encoder's output ``[S, B, D]`` and which of its positions are padding, ``[B, S]``."""

    states: Tensor
    is_pad: Tensor


class _Packed(NamedTuple):
    """The model's parts as decoding uses them."""

    encoder: PackedEncoder
    decoder: PackedDecoder
    generator: PackedLinear | Int8Linear


class _Frozen(NamedTuple):
    """Packed weights that are good as long as the weights stay what they were."""

    packed: _Packed
    linear: MakeLinear
    weights: list[nn.Parameter]
    # Where they lay, kept so that nothing else can come to lie there, and how often written.
    versions: list[tuple[Tensor, int]]

    def is_of(self, weights: list[nn.Parameter], linear: MakeLinear) -> bool:
        of_weights = zip(weights, self.weights, self.versions, strict=True)
        return (
            linear is self.linear
            and len(weights) == len(self.weights)
            and all(
                new is old and new.data_ptr() == data.data_ptr() and new._version == version
                for new, old, (data, version) in of_weights
            )
        )


@dataclass
class DecoderState:
    """What decoding carries from step to step, for B sentences with N rows (beams) each.

    The memory is there as its keys and values, and its padding as a mask beside them.
    """

    packed: _Packed
    caches: list[LayerCache]
    memory_mask: Tensor | None  # [B, 1, 1, S], None without padding
    lineage: Lineage
    sentences: int
    length: int = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keeps the named sentences (of B) and the named rows (of B*N, may repeat).

        Without ``sentences`` all of them stay. ``rows`` holds equally many of each sentence, one
        sentence after the other. Sentences that keep their places cost nothing.
        """
        if sentences is not None:
            self.sentences = len(sentences)
            places = torch.arange(len(sentences), device=sentences.device)
            places = places[sentences != places]
            for cache in self.caches:
                cache.keep(len(sentences), places, sentences[places])
            if self.memory_mask is not None:
                self.memory_mask = self.memory_mask.index_select(0, sentences)
        self.lineage.select(rows, self.sentences)


class SequenceToSequence(nn.Module):
    """Embeddings, positions, :class:`MyTransformer` and the output layer over the target words.

    Args:
        src_vocab_size, tgt_vocab_size: the numbers of source and target words.
        config: the sizes of the Transformer.
        share_embeddings: one table for source and target (their vocabulary must be one).
        tie_output: the target table is the output layer's weight as well (section 3.4).
        special: the ids of the special tokens.
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        config: TransformerConfig,
        *,
        share_embeddings: bool,
        tie_output: bool = True,
        special: SpecialIds = SpecialIds(),
    ) -> None:
        super().__init__()
        if share_embeddings and src_vocab_size != tgt_vocab_size:
            raise ValueError(
                "one shared embedding needs one vocabulary, "
                f"not one of {src_vocab_size} and one of {tgt_vocab_size} words"
            )
        self.config = config
        self.special = special
        self.transformer = MyTransformer(
            d_model=config.d_model,
            nhead=config.nhead,
            num_encoder_layers=config.num_encoder_layers,
            num_decoder_layers=config.num_decoder_layers,
            dim_feedforward=config.dim_feedforward,
            dropout=config.dropout,
            activation=config.activation,
            norm_first=config.norm_first,
        )
        self.src_embedding = TokenEmbedding(src_vocab_size, config.d_model)
        self.tgt_embedding = (
            self.src_embedding
            if share_embeddings
            else TokenEmbedding(tgt_vocab_size, config.d_model)
        )
        self.positional_encoding = PositionalEncoding(
            config.d_model, dropout=config.dropout, max_len=config.max_len
        )
        # How decoding computes linear layers: PackedLinear, or Int8Linear to be faster yet.
        self.linear: MakeLinear = PackedLinear
        self._frozen: _Frozen | None = None
        self.generator = nn.Linear(config.d_model, tgt_vocab_size)
        nn.init.zeros_(self.generator.bias)
        if tie_output:
            self.generator.weight = self.tgt_embedding.embedding.weight

    def __getstate__(self) -> dict[str, Any]:
        """Copies do without the packed weights: they have their own made when they need them."""
        return {**self.__dict__, "_frozen": None}

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """``src`` ``[S, B]``, ``tgt`` ``[T, B]`` (from ``<bos>`` on) -> logits ``[T, B, V]``."""
        return self.generator(self.decode(tgt, self.encode(src)))

    def encode(self, src: Tensor) -> Memory:
        """``[S, B]`` -> the memory and its padding, which belong together from here on."""
        src_is_pad = padding_mask(src, self.special.pad)
        x = self.positional_encoding(self.src_embedding(src))
        states = self.transformer.encoder(x, src_key_padding_mask=src_is_pad)
        return Memory(states, src_is_pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """``[T, B]`` -> ``[T, B, D]``, every position at once, each blind to those after it.

        Padding stands at the end of ``tgt``, where the causal mask already hides it from every
        real position: it needs no mask of its own.
        """
        return self.transformer.decoder(
            self.positional_encoding(self.tgt_embedding(tgt)),
            memory.states,
            tgt_mask=generate_square_subsequent_mask(len(tgt), device=tgt.device, dtype=torch.bool),
            memory_key_padding_mask=memory.is_pad,
        )

    @torch.no_grad()
    def start(self, src: Tensor) -> DecoderState:
        """Encodes ``src`` ``[S, B]`` for step-by-step decoding, with one row a sentence."""
        packed = self._packed()
        is_pad = padding_mask(src, self.special.pad)
        mask = is_pad if is_pad.any() else None
        memory = packed.encoder(self.positional_encoding(self.src_embedding(src)), mask)
        return DecoderState(
            packed=packed,
            caches=packed.decoder.remember(memory, mask),
            memory_mask=None if mask is None else _as_added(mask, memory),
            lineage=Lineage(memory),
            sentences=memory.shape[1],
        )

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """The logits ``[R, V]`` of the words after ``tokens`` ``[R]``, the newest of each row.

        The state moves on by one position.

        Raises:
            ValueError: not one token for each of the state's rows; the message names both numbers.
        """
        rows = state.sentences * state.lineage.beams
        if len(tokens) != rows:
            raise ValueError(f"{len(tokens)} tokens for a state of {rows} rows")
        state.lineage.append()
        x = self.tgt_embedding(tokens) + self.positional_encoding.at(state.length)
        x = state.packed.decoder(x, state.caches, state.lineage.mask(), state.memory_mask)
        state.length += 1
        return state.packed.generator(x)

    def _packed(self) -> _Packed:
        """The weights as decoding uses them, packed anew when they may have changed.

        Weights that can be trained are packed every time. Their version numbers would not tell: a
        fused optimizer does not count them up. Nor do weights made in inference mode have any.
        """
        weights, linear = list(self.parameters()), self.linear
        can_change = any(weight.requires_grad or weight.is_inference() for weight in weights)
        frozen = self._frozen  # read once: searches may run side by side
        if not can_change and frozen is not None and frozen.is_of(weights, linear):
            return frozen.packed
        packed = _Packed(
            PackedEncoder(self.transformer.encoder, linear),
            PackedDecoder(self.transformer.decoder, linear),
            linear(self.generator.weight, self.generator.bias),
        )
        self._frozen = None
        if not can_change:
            versions = [(weight.detach(), weight._version) for weight in weights]
            self._frozen = _Frozen(packed, linear, weights, versions)
        return packed

    @torch.no_grad()
    def attention_weights(self, src: Tensor, tgt: Tensor) -> AttentionWeights:
        """What every head of every layer attends to, for ``src`` ``[S, B]`` and ``tgt`` ``[T, B]``.

        ``tgt`` is as in :meth:`forward`. The model must be in evaluation mode, or dropout takes
        weights away. It is not for several threads at once on one model.
        """
        encoder, decoder = self.transformer.encoder.layers, self.transformer.decoder.layers
        src_is_pad, tgt_is_pad = (padding_mask(ids, self.special.pad) for ids in (src, tgt))
        with (
            recorded_weights(encoder, "self_attn") as of_encoder,
            recorded_weights(decoder, "self_attn") as of_decoder,
            recorded_weights(decoder, "multihead_attn") as of_cross,
        ):
            self.decode(tgt, self.encode(src))
        return AttentionWeights(
            encoder=stack_weights(of_encoder, src_is_pad),
            decoder=stack_weights(of_decoder, tgt_is_pad),
            cross=stack_weights(of_cross, tgt_is_pad),
        )


def _as_added(is_pad: Tensor, like: Tensor) -> Tensor:
    """``[B, S]`` as the mask ``[B, 1, 1, S]`` to add to attention scores.

    A sentence that is nothing but padding stays open: minus infinity alone has no softmax.
    """
    is_blocked = is_pad & ~is_pad.all(dim=1, keepdim=True)
    return like.new_zeros(is_pad.shape).masked_fill_(is_blocked, -torch.inf)[:, None, None]
