"""From source ids to output ids, for many texts at a time."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from core.decoding.beam_search import beam_search
from core.decoding.config import GenerationConfig
from core.decoding.constraints import ForcedPrefix, MinimumLength, NoRepeatNgram, all_of
from core.decoding.diverse_beam_search import diverse_beam_search
from core.decoding.greedy_search import greedy_search
from core.decoding.sampling import sample_search
from core.decoding.search import Constraint, Hypothesis, Step
from core.errors import ConfigError
from core.inference.ensemble import StepModel
from core.parallel import at_most, map_on_cores
from data.batching import bucket_by_length
from tasks.seq2seq.batches import source_tensor
from tasks.seq2seq.n_best import Output, best_combinations, combinations_by_rank
from tasks.seq2seq.request import GenerationRequest, batch_tokens_on

# With so few rows, more threads than this cost more time than they save. Two are still worth it
# for reading the weights.
_FEW_ROWS = 16
_FEW_THREADS = 2

# The logits of a step are 32 MB at most. Larger memory is the system's after every step (glibc),
# which clears it page by page for the next one.
_MAX_LOGITS = 2**23

# The random numbers of an output are identified by one integer, which holds the number of the
# text, the position of the segment in the text, and the number of the sample, in these bits.
_SEGMENT_BIT, _SAMPLE_BIT = 32, 48


@dataclass(frozen=True, kw_only=True)
class EncodedTexts:
    """Texts as a search takes them.

    * ``segments``: of each text, as source ids without special tokens.
    * ``prefix``: the ids that the output of every text begins with.
    * ``max_lengths``: the most tokens in the output of each segment of all texts; None: as the
      configuration says.
    * ``form``: a task's own rules: from the indices of a batch's segments, counted over all texts,
      to the constraint on their outputs.
    """

    segments: Sequence[Sequence[Sequence[int]]]
    prefix: Sequence[int] = ()
    max_lengths: Sequence[int] | None = None
    form: Callable[[Sequence[int]], Constraint] | None = None


E = TypeVar("E", bound=EncodedTexts)


class SegmentResult(NamedTuple):
    """What a search has found for one segment: the best first, or in the order of sampling.

    ``memory_mean`` ``[D]`` is the mean of the encoder's output; another engine may have none.
    """

    hypotheses: list[Hypothesis]
    memory_mean: Tensor | None = None


@dataclass(frozen=True)
class SearchResult(Generic[E]):
    """What a search has found for ``texts``.

    ``outputs``: the outputs of each text, the best first or in the order of sampling.
    ``memory_means``: ``[segments, D]``, of the segments of all texts; see :class:`SegmentResult`.
    """

    texts: E
    outputs: list[list[Output]]
    memory_means: Tensor | None

    @classmethod
    def of(
        cls, texts: E, found: Sequence[SegmentResult], config: GenerationConfig
    ) -> "SearchResult[E]":
        """Returns the results for ``texts``, given those for the segments of all of them.

        Sampled and diverse outputs are combined by rank, others to the ``config.n_best`` best.
        """
        is_ranked = config.sample or config.diversity > 0.0
        combine = combinations_by_rank if is_ranked else best_combinations
        rest = (result.hypotheses for result in found)
        outputs = [combine(list(islice(rest, len(text))), config.n_best) for text in texts.segments]
        means = [result.memory_mean for result in found if result.memory_mean is not None]
        return cls(texts, outputs, torch.stack(means) if means else None)


@dataclass(frozen=True)
class SourceSegment:
    """A segment of a text, and what the search has to know about its output."""

    index: int  # among the segments of all texts
    ids: Sequence[int]
    text_number: int
    rng_number: int
    prefix: tuple[int, ...]
    max_length: int


def search_segments(
    model: StepModel,
    texts: EncodedTexts,
    config: GenerationConfig,
    request: GenerationRequest,
    device: torch.device,
) -> list[SegmentResult]:
    """Returns what is found for every segment of all texts, in order.

    Args:
        config: how to search; the search options of ``request`` are ignored here.

    Raises:
        ConfigError: a constraint that returns anything but a boolean ``[R, V]``; a prefix that is
            too long, or that other rules forbid.
    """
    segments = source_segments(texts, config, request, model.max_len)
    search = _BatchSearch(model, config, request, texts, device)
    size = batch_tokens_on(device, request.batch_tokens)
    most = config.most_sentences()
    width = config.n_best if config.sample else config.beam_size
    if device.type == "cpu":
        most = max(1, min(most, _MAX_LOGITS // (width * model.vocab_size)))
    batches = _in_batches(segments, size, most)
    # A user's constraint need not be safe for several threads.
    workers = None if device.type == "cpu" and request.constraint is None else 1
    rows = len(segments) * width
    found = [SegmentResult([])] * len(segments)
    with at_most(_FEW_THREADS) if rows <= _FEW_ROWS else nullcontext():
        for batch, results in zip(
            batches, map_on_cores(search, batches, workers=workers), strict=True
        ):
            for segment, result in zip(batch, results, strict=True):
                found[segment.index] = result
            request.on_batch(len(batch))
    for segment, (hypotheses, _) in zip(segments, found, strict=True):
        if tuple(hypotheses[0].tokens[: len(segment.prefix)]) != segment.prefix:
            reason = "is forbidden by the other rules that outputs must keep"
            raise ConfigError(reason, option="prefix")
    return found


@dataclass(frozen=True)
class _BatchSearch:
    """The search that ``config`` describes, for one batch of segments at a time."""

    model: StepModel
    config: GenerationConfig
    request: GenerationRequest
    texts: EncodedTexts
    device: torch.device

    def __call__(self, batch: Sequence[SourceSegment]) -> list[SegmentResult]:
        samples = self.config.n_best if self.config.sample else 1
        rows = [segment for segment in batch for _ in range(samples)]
        src = source_tensor([segment.ids for segment in rows]).to(self.device)
        find, options = self._search_of(batch)
        options |= {
            "max_lengths": self._tensor([segment.max_length for segment in rows]),
            "constraint": self._constraint_on(rows),
        }
        step: Step = self.model.step if self.request.on_step is None else self._watched_step
        if (record := self.request.record) is not None:
            sources = [*chain.from_iterable(self.texts.segments)]
            step = record.begin(step, sources, rows[0].max_length, self.config)
            options["record"] = record
        # The packed kernels do not support autocast.
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            state = self.model.start(src)
            found = find(step, state, **options)
            if find is greedy_search:
                found = [[hypothesis] for hypothesis in found]
            elif find is sample_search:
                found = [found[k : k + samples] for k in range(0, len(found), samples)]
            if record is not None:
                record.end(found[0])
            means = state.memory_mean[::samples].float().cpu()
            return [SegmentResult(*pair) for pair in zip(found, means, strict=True)]

    def _search_of(
        self, batch: Sequence[SourceSegment]
    ) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Returns the search that the configuration describes, and its own options."""
        config = self.config
        if config.sample:
            numbers = [
                segment.rng_number + (sample << _SAMPLE_BIT)
                for segment in batch
                for sample in range(config.n_best)
            ]
            names = ("temperature", "top_k", "top_p", "seed")
            options = {name: getattr(config, name) for name in names}
            return sample_search, options | {"sentence_numbers": self._tensor(numbers)}
        if config.beam_size == 1:
            return greedy_search, {}
        options = {"beam_size": config.beam_size, "length_penalty": config.length_penalty}
        if config.diversity:
            return diverse_beam_search, options | {"diversity": config.diversity}
        return beam_search, options | {"n_best": config.n_best}

    def _watched_step(self, tokens: Tensor, state: Any) -> Tensor:
        if self.request.on_step is not None:
            self.request.on_step()
        return self.model.step(tokens, state)

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, device=self.device)

    def _constraint_on(self, rows: Sequence[SourceSegment]) -> Constraint | None:
        """Returns all rules for the outputs of ``rows`` as one constraint, or None."""
        config, vocab_size = self.config, self.model.vocab_size
        rules: list[Constraint] = []
        if self.texts.form is not None:
            rules.append(self.texts.form([segment.index for segment in rows]))
        prefixes = [segment.prefix for segment in rows]
        if any(prefixes):
            rules.append(ForcedPrefix(prefixes, vocab_size=vocab_size, device=self.device))
        if self.request.constraint is not None:
            numbers = self._tensor([segment.text_number for segment in rows])
            rules.append(_checked(self.request.constraint, numbers, vocab_size))
        if config.min_length_ratio:
            shortest = self._tensor([config.shortest_output(len(s.ids)) for s in rows])
            rules.append(MinimumLength(shortest, vocab_size=vocab_size))
        if config.no_repeat_ngram:
            rules.append(NoRepeatNgram(config.no_repeat_ngram, vocab_size=vocab_size))
        return all_of(*rules) if rules else None


def source_segments(
    texts: EncodedTexts, config: GenerationConfig, request: GenerationRequest, max_len: int
) -> list[SourceSegment]:
    """Returns the segments of all texts; refuses a prefix and numbers that do not fit them."""
    # The last position of the model is needed for the token that predicts <eos>.
    limit = max_len - 1
    longest, length = min(limit, config.max_length or limit), len(texts.prefix)
    if texts.max_lengths is None and length > longest:
        reason = f"has {length} tokens, and an output may have {longest}"
        raise ConfigError(reason, option="prefix")
    count = len(texts.segments)
    numbers = range(count) if request.numbers is None else request.numbers
    if len(numbers) != count:
        reason = f"must be one for each text: {len(numbers)} for {count} texts"
        raise ConfigError(reason, option="numbers")
    segments: list[SourceSegment] = []
    for number, text in zip(numbers, texts.segments, strict=True):
        for position, ids in enumerate(text):
            index, prefix = len(segments), () if position else tuple(texts.prefix)
            if texts.max_lengths is None:
                max_length = max(config.longest_output(len(ids)), len(prefix))
            else:
                max_length = texts.max_lengths[index]
            rng_number = number + (position << _SEGMENT_BIT)
            segments.append(
                SourceSegment(index, ids, number, rng_number, prefix, min(max_length, limit))
            )
    return segments


def _in_batches(
    segments: Sequence[SourceSegment], batch_tokens: int, most: int
) -> list[list[SourceSegment]]:
    """Returns batches of similar length, the longest first: at most ``most`` segments in each."""
    lengths = [(len(segment.ids) + 1,) for segment in segments]
    buckets = bucket_by_length(lengths, batch_tokens=batch_tokens, seed=None)
    return [
        [segments[i] for i in bucket[part::parts]]
        for bucket in reversed(buckets)
        for parts in [-(-len(bucket) // most)]
        for part in range(parts)
    ]


def _checked(constraint: Constraint, numbers: Tensor, vocab_size: int) -> Constraint:
    """Returns a user's ``constraint`` with its results checked; ``numbers`` ``[B]`` are those of
    the texts that the sentences belong to."""

    def forbidden(outputs: Tensor, sentences: Tensor) -> Tensor:
        result: object = constraint(outputs, numbers[sentences])
        description = type(result).__name__
        if isinstance(result, Tensor):
            if result.dtype == torch.bool and result.shape == (len(sentences), vocab_size):
                return result.to(outputs.device)
            description = f"{list(result.shape)} of {result.dtype}"
        raise ConfigError(
            "must return a tensor [rows, words] = "
            f"[{len(sentences)}, {vocab_size}] of torch.bool, not {description}",
            option="constraint",
        )

    return forbidden
