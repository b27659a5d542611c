"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017, section 3).

Parameters have the names, the layout and the order of ``torch.nn.Transformer``: state dicts and
optimizer states are interchangeable, and with the same weights the outputs are equal.
``norm_first=False`` is the paper's order (post-norm, section 3.1: LayerNorm(x + Sublayer(x))).
``norm_first=True`` normalizes the input of each sublayer instead (pre-norm; Xiong et al. 2020),
which depends less on the learning-rate warmup.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from core.model.attention import MyMultiheadAttention, check_states
from core.model.dropout import Dropout
from core.model.masks import generate_square_subsequent_mask
from core.model.rotary import rotations

Activation = Callable[[Tensor], Tensor]


def _activation(activation: str | Activation) -> Activation:
    if callable(activation):
        return activation
    functions: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}
    if activation not in functions:
        raise ValueError(f"activation must be one of {list(functions)}, not {activation!r}")
    return functions[activation]


class MyTransformerEncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual connection (section 3.1).

    Args:
        d_model: D. nhead: H. dim_feedforward: F.
        dropout: of all sublayers' outputs (section 5.4) and, as in torch.nn, of attention weights
            and of the feed-forward's inner layer.
        activation: "relu" (the paper's), "gelu" or a function.
        norm_first: pre-norm instead of the paper's post-norm.

    Raises:
        ValueError: a size, a probability or a name out of range; in ``forward``, an input or a mask
            of the wrong size. The message names the sizes.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        *,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.norm_first = norm_first
        # The modules are made in torch.nn's order, which is the order of the parameters.
        self.self_attn = MyMultiheadAttention(d_model, nhead, dropout)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.dropout = Dropout(dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.norm2 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        rotations: Tensor | None = None,
    ) -> Tensor:
        """``src`` ``[S, B, D]``, ``src_mask`` ``[S, S]`` -> ``[S, B, D]``.

        ``rotations`` are those of self-attention (:class:`MyMultiheadAttention`).
        """
        check_states("src", src, self.d_model)
        x, masks = src, {"attn_mask": src_mask, "key_padding_mask": src_key_padding_mask}
        if self.norm_first:
            x = x + self._self_attention_block(self.norm1(x), **masks, rotations=rotations)
            return x + self._feed_forward_block(self.norm2(x))
        x = self.norm1(x + self._self_attention_block(x, **masks, rotations=rotations))
        return self.norm2(x + self._feed_forward_block(x))

    def _self_attention_block(self, x: Tensor, **masks: Any) -> Tensor:
        """Every position attends to the positions that the masks leave open (section 3.2.3)."""
        out, _ = self.self_attn(x, x, x, need_weights=False, **masks)
        return self.dropout1(out)

    def _feed_forward_block(self, x: Tensor) -> Tensor:
        """FFN(x) = W2 act(W1 x + b1) + b2, for each position alone (equation 2)."""
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class MyTransformerDecoderLayer(nn.Module):
    """Masked self-attention, attention over the memory, feed-forward (section 3.1, "Decoder").

    Arguments and errors are those of :class:`MyTransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        *,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.norm_first = norm_first
        self.self_attn = MyMultiheadAttention(d_model, nhead, dropout)
        self.multihead_attn = MyMultiheadAttention(d_model, nhead, dropout)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.dropout = Dropout(dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.norm2 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.norm3 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        *,
        rotations: Tensor | None = None,
    ) -> Tensor:
        """``tgt`` ``[T, B, D]`` and ``memory`` ``[S, B, D]`` -> ``[T, B, D]``.

        ``tgt_is_causal``: ``tgt_mask`` is the causal mask.
        """
        check_states("tgt", tgt, self.d_model)
        check_states("memory", memory, self.d_model)
        x, masks = tgt, {"attn_mask": tgt_mask, "key_padding_mask": tgt_key_padding_mask}
        own: dict[str, Any] = {"is_causal": tgt_is_causal, "rotations": rotations}
        memory_masks = {"attn_mask": memory_mask, "key_padding_mask": memory_key_padding_mask}
        if self.norm_first:
            x = x + self._self_attention_block(self.norm1(x), **masks, **own)
            x = x + self._memory_block(self.norm2(x), memory, **memory_masks)
            return x + self._feed_forward_block(self.norm3(x))
        x = self.norm1(x + self._self_attention_block(x, **masks, **own))
        x = self.norm2(x + self._memory_block(x, memory, **memory_masks))
        return self.norm3(x + self._feed_forward_block(x))

    def _self_attention_block(self, x: Tensor, **masks: Any) -> Tensor:
        out, _ = self.self_attn(x, x, x, need_weights=False, **masks)
        return self.dropout1(out)

    def _memory_block(self, x: Tensor, memory: Tensor, **masks: Any) -> Tensor:
        """Encoder-decoder attention (section 3.2.3); ``torch.nn`` calls it ``_mha_block``."""
        out, _ = self.multihead_attn(x, memory, memory, need_weights=False, **masks)
        return self.dropout2(out)

    def _feed_forward_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class _Stack(nn.Module):
    """Copies of a layer, and a final norm if one is given.

    With ``rotary``, self-attention has rotary positions (:mod:`core.model.rotary`).

    Raises:
        ValueError: ``num_layers`` below 1.
    """

    def __init__(
        self,
        layer: MyTransformerEncoderLayer | MyTransformerDecoderLayer,
        num_layers: int,
        norm: nn.Module | None = None,
        *,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"a stack needs at least one layer, not {num_layers}")
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.norm = norm
        self.rotary, self.head_dim = rotary, layer.self_attn.head_dim

    def _rotations(self, x: Tensor) -> Tensor | None:
        """Returns the rotations of all positions of ``x``, for all layers."""
        return rotations(len(x), self.head_dim, x) if self.rotary else None


class MyTransformerEncoder(_Stack):
    """A stack of ``num_layers`` copies of an encoder layer."""

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None
    ) -> Tensor:
        """``[S, B, D]`` -> the memory ``[S, B, D]``."""
        x, rotations = src, self._rotations(src)
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, rotations)
        return x if self.norm is None else self.norm(x)


class MyTransformerDecoder(_Stack):
    """A stack of ``num_layers`` copies of a decoder layer."""

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
    ) -> Tensor:
        """``tgt`` ``[T, B, D]`` and ``memory`` ``[S, B, D]`` -> ``[T, B, D]``.

        ``tgt_is_causal``: ``tgt_mask`` is the causal mask.
        """
        x, masks = tgt, (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        rotations = self._rotations(tgt)
        for layer in self.layers:
            x = layer(x, memory, *masks, tgt_is_causal, rotations=rotations)
        return x if self.norm is None else self.norm(x)


class MyTransformer(nn.Module):
    """Encoder and decoder (figure 1, without embeddings and output layer).

    The defaults are the paper's base model (table 3). As in ``torch.nn.Transformer``, both stacks
    end in a LayerNorm, with post-norm too. ``rotary`` gives self-attention rotary positions;
    otherwise the embeddings contain the positions.
    """

    generate_square_subsequent_mask = staticmethod(generate_square_subsequent_mask)

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        *,
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.nhead = nhead
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        self.encoder = MyTransformerEncoder(
            MyTransformerEncoderLayer(*sizes, norm_first=norm_first),
            num_encoder_layers,
            nn.LayerNorm(d_model, eps=layer_norm_eps),
            rotary=rotary,
        )
        self.decoder = MyTransformerDecoder(
            MyTransformerDecoderLayer(*sizes, norm_first=norm_first),
            num_decoder_layers,
            nn.LayerNorm(d_model, eps=layer_norm_eps),
            rotary=rotary,
        )
        initialize_matrices(self)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """``src`` ``[S, B, D]`` and ``tgt`` ``[T, B, D]`` -> ``[T, B, D]``.

        Raises:
            ValueError: inputs whose batches or widths differ; the message names the sizes.
        """
        if src.dim() != 3 or tgt.dim() != 3 or src.shape[1:] != tgt.shape[1:]:
            raise ValueError(
                "src [S, B, D] and tgt [T, B, D] must agree in B and D, "
                f"not {list(src.shape)} and {list(tgt.shape)}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks)


def initialize_matrices(module: nn.Module) -> None:
    """Xavier-uniform (Glorot and Bengio 2010) for every parameter of two or more dimensions."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
