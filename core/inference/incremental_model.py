"""A model prepared for decoding one token at a time."""

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding

from core.decoding.greedy_search import greedy_search
from core.inference.key_value_cache import LayerCache, Lineage
from core.inference.packed_linear import PackedLinear
from core.inference.packed_transformer import PackedDecoder, PackedEncoder
from core.model.masks import padding_mask
from core.model.rotary import rotations
from core.model.sequence_to_sequence import SequenceToSequence
from core.special_ids import PAD_ID


@dataclass
class DecoderState:
    """What decoding carries from step to step, for B sentences with N rows (beams) each.

    The memory is stored as its keys and values in ``caches``, and as its ``decoder_inputs``
    (:class:`Memory`). ``length`` counts the steps so far. ``memory_mean`` is the mean of the
    encoder's output over the tokens of each sentence, whichever sentences are selected.
    """

    caches: list[LayerCache]
    memory_mask: Tensor | None  # [B, 1, 1, S], None without padding
    lineage: Lineage
    sentences: int
    memory_mean: Tensor  # [B, D]
    decoder_inputs: Tensor | None = None  # [S, B, D]
    length: int = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keeps the given sentences (of B) and the given rows (of B*N, may repeat).

        Without ``sentences`` all sentences stay. ``rows`` has the same number of rows for each
        sentence, sentence after sentence. Sentences that keep their places are not copied.
        ``sentences`` is on the CPU: the program does not wait for a GPU to know which these are.
        """
        if sentences is not None:
            self.sentences = len(sentences)
            places = torch.arange(len(sentences))
            places = places[sentences != places]
            origins, places = sentences[places].to(rows.device), places.to(rows.device)
            for cache in self.caches:
                cache.keep(len(sentences), places, origins)
            sentences = sentences.to(rows.device)
            if self.memory_mask is not None:
                self.memory_mask = self.memory_mask.index_select(0, sentences)
            if self.decoder_inputs is not None:
                self.decoder_inputs = self.decoder_inputs.index_select(1, sentences)
        self.lineage.select(rows, self.sentences)


class IncrementalModel:
    """A model prepared for decoding: a snapshot of its weights, packed.

    The snapshot never changes. A model whose weights, modules, type or device have changed needs a
    new ``IncrementalModel``. One object serves several threads, because each search has its own
    state. Dropout is never applied, and no gradient is recorded. Autocast must be off.

    Attributes:
        vocab_size: V, the size of the target vocabulary.
        max_len: the longest sequence, source or target, that the model has positions for.
    """

    def __init__(self, model: SequenceToSequence) -> None:
        self.vocab_size, self.src_vocab_size = (
            len(each.weight) for each in (model.tgt_embedding, model.src_embedding)
        )
        self.max_len = model.positional_encoding.max_len
        with torch.no_grad():
            table = model.positional_encoding.table
            self._positions = None if table is None else table.clone()
            # Scaled here once (section 3.4) instead of in every step.
            scale = math.sqrt(model.tgt_embedding.emb_size)
            self._tgt_table = model.tgt_embedding.weight * scale
            is_shared = model.src_embedding.weight is model.tgt_embedding.weight
            self._src_table = self._tgt_table if is_shared else model.src_embedding.weight * scale
            self._encoder = PackedEncoder(model.transformer.encoder)
            self._decoder = PackedDecoder(model.transformer.decoder)
            self._rotations = None
            if (decoder := model.transformer.decoder).rotary:
                self._rotations = rotations(self.max_len, decoder.head_dim, self._tgt_table)
            self._source_reader = copy.deepcopy(model.source_reader)
            self._generator = PackedLinear(model.generator.weight, model.generator.bias)

    @torch.no_grad()
    def start(self, src: Tensor) -> DecoderState:
        """Encodes ``src`` ``[S, B]`` and returns a state with one row for each sentence.

        Raises:
            ValueError: more positions than the model has.
        """
        self._check_length(len(src))
        is_pad = padding_mask(src, PAD_ID)
        mask = is_pad if is_pad.any() else None
        x = embedding(src, self._src_table)
        memory = self._encoder(self._with_positions(x, slice(len(src))), mask)
        reader = self._source_reader
        return DecoderState(
            caches=self._decoder.init_cache(memory, mask),
            memory_mask=None if mask is None else added_mask(mask, memory),
            lineage=Lineage(memory),
            sentences=memory.shape[1],
            decoder_inputs=None if reader is None else reader(x, memory, mask),
            memory_mean=_mean(memory, mask),
        )

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Returns the logits ``[R, V]`` that follow ``tokens`` ``[R]``, the newest of each row.

        The state advances by one position.

        Raises:
            ValueError: not one token for each of the state's rows, or no positions are left.
        """
        rows = state.sentences * state.lineage.beams
        if len(tokens) != rows:
            raise ValueError(f"{len(tokens)} tokens for a state of {rows} rows")
        self._check_length(state.length + 1)
        state.lineage.append()
        x = self._with_positions(embedding(tokens, self._tgt_table), state.length)
        inputs = state.decoder_inputs
        if inputs is not None and state.length < len(inputs):
            x += inputs[state.length].repeat_interleave(state.lineage.beams, dim=0)
        turned = self._rotations
        if turned is not None:
            turned = turned[:, state.length : state.length + 1]
        x = self._decoder(x, state.caches, state.lineage, state.memory_mask, turned)
        state.length += 1
        return self._generator(x)

    def _with_positions(self, x: Tensor, places: slice | int) -> Tensor:
        return x if self._positions is None else x + self._positions[places]

    def _check_length(self, length: int) -> None:
        if length > self.max_len:
            raise ValueError(
                f"position {length} is beyond the longest sequence of the model, {self.max_len}"
            )


def greedy_decode(
    model: SequenceToSequence, src: Tensor, *, max_lengths: Tensor | None = None
) -> list[list[int]]:
    """Returns the most probable token at every step, for a batch ``src`` ``[S, B]``.

    It takes a snapshot of ``model``, which is worth keeping where there are many batches.
    By default, the ``max_lengths`` ``[B]`` of outputs are twice those of their sources, plus ten.
    The ids of outputs come without special tokens.
    """
    prepared = IncrementalModel(model)
    if max_lengths is None:
        max_lengths = 2 * (src != PAD_ID).sum(dim=0) + 10
    # The packed kernels do not support autocast.
    with torch.inference_mode(), torch.autocast(src.device.type, enabled=False):
        found = greedy_search(
            prepared.step,
            prepared.start(src),
            max_lengths=torch.clamp(max_lengths, max=prepared.max_len - 1),
        )
    return [hypothesis.tokens for hypothesis in found]


def _mean(memory: Tensor, is_pad: Tensor | None) -> Tensor:
    """Returns the mean ``[B, D]`` of ``memory`` ``[S, B, D]`` over the positions of tokens."""
    if is_pad is None:
        return memory.mean(dim=0)
    is_token = (~is_pad).t().unsqueeze(2).to(memory)
    return (memory * is_token).sum(dim=0) / is_token.sum(dim=0).clamp(min=1.0)


def added_mask(is_pad: Tensor, like: Tensor) -> Tensor:
    """Returns the padding ``[B, S]`` as a mask ``[B, 1, 1, S]`` to add to attention scores.

    A sentence of nothing but padding is left open, because the softmax of minus infinity alone is
    NaN. Its keys and values are zero.
    """
    is_blocked = is_pad & ~is_pad.all(dim=1, keepdim=True)
    return like.new_zeros(is_pad.shape).masked_fill_(is_blocked, -torch.inf)[:, None, None]
