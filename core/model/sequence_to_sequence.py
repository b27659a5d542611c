"""The complete encoder-decoder model over token ids (Vaswani et al. 2017, figure 1).

Translation and couplets use this model with different vocabularies. It derives every mask from the
token ids, so that a caller cannot forget one.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.model.config import TransformerConfig
from core.model.embedding import PositionalEncoding, TokenEmbedding
from core.model.masks import generate_square_subsequent_mask, padding_mask
from core.model.transformer import MyTransformer
from core.special_ids import PAD_ID


class Memory(NamedTuple):
    """The encoder's output ``[S, B, D]`` and which of its positions are padding, ``[B, S]``.

    ``decoder_inputs`` ``[S, B, D]`` are added to the embeddings of the target, position by position
    (:attr:`SequenceToSequence.source_reader`).
    """

    states: Tensor
    is_pad: Tensor
    decoder_inputs: Tensor | None = None


class SequenceToSequence(nn.Module):
    """Embeddings, positions, :class:`MyTransformer` and the output layer over the target tokens.

    Args:
        src_vocab_size, tgt_vocab_size: the sizes of the source and the target vocabulary.
        config: the sizes of the Transformer.
        share_embeddings: use one table for source and target, which then share a vocabulary.
        tie_output: use the target table as the weight of the output layer too (section 3.4).

    Raises:
        ValueError: a shared table for vocabularies of different sizes.
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        config: TransformerConfig,
        *,
        share_embeddings: bool,
        tie_output: bool = True,
    ) -> None:
        super().__init__()
        if share_embeddings and src_vocab_size != tgt_vocab_size:
            raise ValueError(
                f"shared embeddings need vocabularies of one size, not {src_vocab_size} and "
                f"{tgt_vocab_size}: write share_embeddings=False"
            )
        self.config = config
        self.transformer = MyTransformer(
            d_model=config.d_model,
            nhead=config.nhead,
            num_encoder_layers=config.num_encoder_layers,
            num_decoder_layers=config.num_decoder_layers,
            dim_feedforward=config.dim_feedforward,
            dropout=config.dropout,
            activation=config.activation,
            norm_first=config.norm_first,
            rotary=config.positions == "rotary",
        )
        self.src_embedding = TokenEmbedding(src_vocab_size, config.d_model)
        self.tgt_embedding = self.src_embedding
        if not share_embeddings:
            self.tgt_embedding = TokenEmbedding(tgt_vocab_size, config.d_model)
        self.positional_encoding = PositionalEncoding(
            config.d_model, config.dropout, config.max_len, positions=config.positions
        )
        self.generator = nn.Linear(config.d_model, tgt_vocab_size)
        nn.init.zeros_(self.generator.bias)
        if tie_output:
            self.generator.weight = self.tgt_embedding.embedding.weight

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """``src`` ``[S, B]``, ``tgt`` ``[T, B]`` (from ``<bos>`` on) -> logits ``[T, B, V]``."""
        return self.generator(self.decode(tgt, self.encode(src)))

    def encode(self, src: Tensor) -> Memory:
        """``src`` ``[S, B]`` -> the memory, together with its padding."""
        is_pad = padding_mask(src, PAD_ID)
        x = self.src_embedding(src)
        states = self.transformer.encoder(self.positional_encoding(x), src_key_padding_mask=is_pad)
        reader = self.source_reader
        added = None if reader is None else reader(x, states, is_pad)
        return Memory(states, is_pad, added)

    @property
    def source_reader(self) -> nn.Module | None:
        """What a subclass gives the decoder to read beside its tokens; None here.

        A module from the source's embeddings (without positions), the encoder's output, ``[S, B,
        D]`` each, and the padding ``[B, S]`` (None: there is none) to ``Memory.decoder_inputs``.
        """
        return None

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """``tgt`` ``[T, B]`` -> ``[T, B, D]``, all positions at once under the causal mask.

        Padding is at the end of ``tgt``. There the causal mask already hides it from every real
        position, so it needs no mask of its own.
        """
        x = self.tgt_embedding(tgt)
        if memory.decoder_inputs is not None:
            # A negative padding cuts; beyond the source there is nothing to add.
            added = memory.decoder_inputs
            x = x + F.pad(added, (0, 0, 0, 0, 0, len(tgt) - len(added)))
        return self.transformer.decoder(
            self.positional_encoding(x),
            memory.states,
            tgt_mask=generate_square_subsequent_mask(tgt.shape[0], tgt.device, torch.bool),
            memory_key_padding_mask=memory.is_pad,
            tgt_is_causal=True,
        )
