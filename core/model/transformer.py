"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017, section 3).

Parameters carry the names and layout of ``torch.nn.Transformer``: state dicts are interchangeable,
and with the same weights the outputs are equal. ``norm_first=False`` is the paper's order
(post-norm, section 3.1: LayerNorm(x + Sublayer(x))), ``norm_first=True`` normalises each sublayer's
input instead (pre-norm; Xiong et al. 2020), which trains without care for the warm-up.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from .attention import MyMultiheadAttention
from .dropout import Dropout
from .linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """Base of the layers: the position-wise network FFN(x) = W2 act(W1 x + b1) + b2 (section 3.3).

    Not a layer of its own, so that ``linear1`` and ``linear2`` keep their names in the state dict.
    """

    def __init__(self, d_model: int, dim_feedforward: int, dropout: float, activation: str) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, not {activation!r}")
        self.activation = ACTIVATIONS[activation]
        self.linear1 = Linear(d_model, dim_feedforward)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model)

    def feed_forward(self, x: Tensor) -> Tensor:
        """``[S, B, D]`` -> ``[S, B, D]``, each position by itself."""
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _check_width(self, name: str, x: Tensor) -> None:
        d_model = self.linear1.in_features
        if x.dim() != 3 or x.shape[2] != d_model:
            raise ValueError(
                f"{name} must be [length, B, D] with D = {d_model}, not {list(x.shape)}"
            )


class MyTransformerEncoderLayer(FeedForward):
    """Self-attention and a feed-forward network, each with a residual connection (section 3.1).

    Args:
        d_model: D. nhead: H. dim_feedforward: F.
        dropout: of attention weights, of the feed-forward's inner layer and of both sublayers'
            outputs (section 5.4).
        activation: "relu" (the paper's) or "gelu".
        norm_first: pre-norm instead of the paper's post-norm.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
    ) -> None:
        super().__init__(d_model, dim_feedforward, dropout, activation)
        self.norm_first = norm_first
        self.self_attn = MyMultiheadAttention(d_model, nhead, dropout=dropout)
        self.norm1 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.norm2 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """``src`` ``[S, B, D]``, ``src_mask`` ``[S, S]`` -> ``[S, B, D]`` (else ValueError)."""
        self._check_width("src", src)

        def add_attention(residual: Tensor, x: Tensor) -> Tensor:
            out, _ = self.self_attn(
                x,
                x,
                x,
                attn_mask=src_mask,
                key_padding_mask=src_key_padding_mask,
                need_weights=False,
            )
            return self.dropout1.added_to(residual, out)

        def add_feed_forward(residual: Tensor, x: Tensor) -> Tensor:
            return self.dropout2.added_to(residual, self.feed_forward(x))

        x = src
        if self.norm_first:
            x = add_attention(x, self.norm1(x))
            return add_feed_forward(x, self.norm2(x))
        x = self.norm1(add_attention(x, x))
        return self.norm2(add_feed_forward(x, x))


class MyTransformerDecoderLayer(FeedForward):
    """Masked self-attention, attention over the memory, feed-forward (section 3.1, "Decoder").

    Arguments as in :class:`MyTransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
    ) -> None:
        super().__init__(d_model, dim_feedforward, dropout, activation)
        self.norm_first = norm_first
        self.self_attn = MyMultiheadAttention(d_model, nhead, dropout=dropout)
        self.multihead_attn = MyMultiheadAttention(d_model, nhead, dropout=dropout)
        self.norm1 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.norm2 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.norm3 = nn.LayerNorm(d_model, eps=layer_norm_eps)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """``tgt`` ``[T, B, D]`` and ``memory`` ``[S, B, D]`` -> ``[T, B, D]`` (else ValueError)."""
        self._check_width("tgt", tgt)
        self._check_width("memory", memory)

        def add_self_attention(residual: Tensor, x: Tensor) -> Tensor:
            out, _ = self.self_attn(
                x,
                x,
                x,
                attn_mask=tgt_mask,
                key_padding_mask=tgt_key_padding_mask,
                need_weights=False,
            )
            return self.dropout1.added_to(residual, out)

        def add_memory_attention(residual: Tensor, x: Tensor) -> Tensor:
            out, _ = self.multihead_attn(
                x,
                memory,
                memory,
                attn_mask=memory_mask,
                key_padding_mask=memory_key_padding_mask,
                need_weights=False,
            )
            return self.dropout2.added_to(residual, out)

        def add_feed_forward(residual: Tensor, x: Tensor) -> Tensor:
            return self.dropout3.added_to(residual, self.feed_forward(x))

        x = tgt
        if self.norm_first:
            x = add_self_attention(x, self.norm1(x))
            x = add_memory_attention(x, self.norm2(x))
            return add_feed_forward(x, self.norm3(x))
        x = self.norm1(add_self_attention(x, x))
        x = self.norm2(add_memory_attention(x, x))
        return self.norm3(add_feed_forward(x, x))


class MyTransformerEncoder(nn.Module):
    """A stack of ``num_layers`` copies of ``encoder_layer``, and a final norm if one is given."""

    def __init__(
        self,
        encoder_layer: MyTransformerEncoderLayer,
        num_layers: int,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """``[S, B, D]`` -> the memory ``[S, B, D]``."""
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask)
        return x if self.norm is None else self.norm(x)


class MyTransformerDecoder(nn.Module):
    """A stack of ``num_layers`` copies of ``decoder_layer``, and a final norm if one is given."""

    def __init__(
        self,
        decoder_layer: MyTransformerDecoderLayer,
        num_layers: int,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """``tgt`` ``[T, B, D]`` and ``memory`` ``[S, B, D]`` -> ``[T, B, D]``."""
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
            )
        return x if self.norm is None else self.norm(x)


class MyTransformer(nn.Module):
    """Encoder and decoder (figure 1, without embeddings and output layer).

    Defaults are the paper's base model (table 3). Like ``torch.nn.Transformer``, both stacks end in
    a LayerNorm, post-norm too.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.nhead = nhead
        sizes = (d_model, nhead, dim_feedforward)
        of_layer = (*sizes, dropout, activation, layer_norm_eps, norm_first)
        self.encoder = MyTransformerEncoder(
            MyTransformerEncoderLayer(*of_layer),
            num_encoder_layers,
            nn.LayerNorm(d_model, eps=layer_norm_eps),
        )
        self.decoder = MyTransformerDecoder(
            MyTransformerDecoderLayer(*of_layer),
            num_decoder_layers,
            nn.LayerNorm(d_model, eps=layer_norm_eps),
        )
        initialise_matrices(self)

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
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
        )


def initialise_matrices(module: nn.Module) -> None:
    """Xavier-uniform (Glorot and Bengio 2010) for every parameter of two or more dimensions."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)


def _clones(layer: nn.Module, count: int) -> nn.ModuleList:
    if count < 1:
        raise ValueError(f"a stack needs at least one layer, not {count}")
    return nn.ModuleList(copy.deepcopy(layer) for _ in range(count))
