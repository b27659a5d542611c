"""What the predictors of translation and couplets share: loading, searching, scoring, attention."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import torch
from torch import Tensor

from core.config import check
from core.decoding.config import GenerationConfig
from core.decoding.recording import SearchTree
from core.device import choose_device
from core.distributed.process_group import ALONE, ProcessGroup
from core.errors import CheckpointError, ConfigError, TextError
from core.inference.ensemble import Ensemble, StepModel
from core.inference.incremental_model import IncrementalModel
from core.model.masks import generate_square_subsequent_mask
from core.model.sequence_to_sequence import SequenceToSequence
from data.codec import TextCodec
from data.examples import Pair
from data.vocabulary import BOS_ID, EOS_ID, Vocabulary
from tasks.inside import Trace
from tasks.predictor import Predictor
from tasks.runs.checkpoint_folder import Folders, model_folders
from tasks.seq2seq.generation import E, SearchResult, search_segments
from tasks.seq2seq.labeled_attention import Attention, attention
from tasks.seq2seq.objective import measure_pairs
from tasks.seq2seq.pair_scores import PairScore, score_texts
from tasks.seq2seq.request import DEFAULT_REQUEST, GenerationRequest
from tasks.texts import as_texts

R = TypeVar("R")


class PairPredictor(Predictor[R], Generic[R, E]):
    """One trained model, or an ensemble of several, with the codecs of its texts.

    The first search makes a snapshot of the weights (:class:`IncrementalModel`). If they change
    afterwards, a new predictor is needed. Several threads can use a predictor at the same time.

    Args:
        models: the model, or the models of an ensemble, in evaluation mode.
        source, target: the codecs of source and target texts.
        generation: how to search where a request does not say otherwise.
    """

    models: list[SequenceToSequence]
    request_type: ClassVar[type[GenerationRequest]] = GenerationRequest

    def __init__(
        self,
        models: Sequence[SequenceToSequence],
        source: TextCodec,
        target: TextCodec,
        generation: GenerationConfig,
        device: torch.device,
    ) -> None:
        if not models:
            raise ConfigError("a predictor needs at least one model")
        self.models = list(models)
        self.source = source
        self.target = target
        self.generation = generation
        self.device = device
        self._step_model: StepModel | None = None
        self._lock = Lock()

    @classmethod
    def load(cls, folder: Folders = None, *, device: str = "auto") -> Self:
        """Loads the model in ``folder``, the shipped one by default, or several as an ensemble.

        An ensemble searches with the configuration of its first model.

        Raises:
            CheckpointError: a folder is missing, incomplete, damaged or of another task; or the
                models of an ensemble do not fit together.
        """
        chosen = choose_device(device)
        paths = model_folders(cls.task, folder)
        if not paths:
            raise ConfigError("a predictor needs at least one model")
        members = [cls._load_one(path, chosen) for path in paths]
        if len(members) == 1:
            return members[0]
        for path, member in zip(paths, members, strict=True):
            for name, expected in members[0]._compatibility().items():
                if member._compatibility()[name] != expected:
                    raise CheckpointError(
                        f"{paths[0]} and {path} cannot search as one: their {name} differs"
                    )
        return cls._join(members)

    @property
    def max_len(self) -> int:
        """The longest sequence that all models have positions for."""
        return min(model.config.max_len for model in self.models)

    def step_model(self) -> StepModel:
        """Returns the model or the ensemble as searches use it; it is made once."""
        with self._lock:
            if self._step_model is None:
                packed = [IncrementalModel(model) for model in self.models]
                self._step_model = packed[0] if len(packed) == 1 else Ensemble(packed)
            return self._step_model

    def check(self, request: GenerationRequest) -> GenerationConfig:
        """Returns how ``request`` searches.

        Raises:
            ConfigError: an option out of range, options that contradict each other, or one that the
                task does not have; whatever the texts are.
        """
        return request.resolve(self.generation)

    def rows(self, request: GenerationRequest) -> int:
        """Returns how many outputs are searched for each text at a time."""
        config = request.resolve(self.generation)
        return config.n_best if config.sample else config.beam_size

    def generate(
        self, texts: str | Iterable[str], request: GenerationRequest = DEFAULT_REQUEST
    ) -> list[R]:
        """Returns the result for each of ``texts``, in their order; a string is one text.

        Raises:
            TypeError: a text that is not a string.
            TextError: a text that the task cannot take.
            ConfigError: an option out of range, options that contradict each other, a prefix or a
                constraint that leaves no possible output.
        """
        texts = as_texts(texts)
        return self._results(texts, self.search(texts, request))

    def predict(self, texts: str | Iterable[str], **options: Any) -> list[R]:
        """As :meth:`generate`, with ``options`` of the request. Raises a ConfigError for others."""
        return self.generate(texts, self.request_type.of(**options))

    def search(self, texts: Sequence[str], request: GenerationRequest) -> SearchResult[E]:
        """Returns what is found for ``texts``; errors as in :meth:`generate`."""
        config = self.check(request)
        encoded = self._encode(texts, request)
        found = search_segments(self.step_model(), encoded, config, request, self.device)
        return SearchResult.of(encoded, found, config)

    def measure(self, pairs: Sequence[Pair], group: ProcessGroup = ALONE) -> dict[str, float]:
        """Returns the mean loss and the accuracy on encoded pairs (:func:`.measure_pairs`)."""
        size = self.config.train.batch_tokens
        return measure_pairs(self.models, pairs, batch_tokens=size, device=self.device, group=group)

    @property
    def codecs(self) -> dict[str, Any]:
        return {"source": self.source, "target": self.target}

    def embedding(self, side: str) -> tuple[TextCodec, Tensor]:
        model = self.models[0]
        if side == "source":
            return self.source, model.src_embedding.weight
        return self.target, model.tgt_embedding.weight

    def properties(self) -> dict[str, Any]:
        return {"ensemble": len(self.models), "defaults": asdict(self.generation)}

    def attention(self, text: str, target: str | None = None, **options: Any) -> list[Attention]:
        """Returns the attention between ``text`` and its best output, one record per segment.

        Args:
            target: the output, instead of the best one; the pair is one segment.
            options: those of :class:`GenerationRequest`, for the search; none with a ``target``.

        Raises:
            ConfigError: as :meth:`generate`; options with a ``target``; or this is an ensemble.
            TextError: as :meth:`generate`; or the pair is too long for the model.
        """
        if len(self.models) > 1:
            raise ConfigError(
                "attention belongs to a single model: load the ensemble's models one by one"
            )
        if target is not None:
            check(not options, "the options of a search", [*options], "left out with a target")
            pairs = [self._pair(text, target)]
        else:
            request = GenerationRequest.of(**options)
            own = request.replaced(pass_through=False, placeholders=False)
            found = self.search(as_texts([text]), own)
            outputs = [hypothesis.tokens for hypothesis in found.outputs[0][0].hypotheses]
            pairs = [*zip(found.texts.segments[0], outputs, strict=True)]
        vocabularies = self.source.vocabulary, self.target.vocabulary
        return [attention(self.models[0], *pair, vocabularies, self.device) for pair in pairs]

    def trace(self, text: str, **options: Any) -> Trace:
        """Returns the prediction of ``text``, one sentence, with all that can be seen of it.

        Raises:
            ConfigError, TextError: as :meth:`predict`; or not one sentence of 1 to 60 tokens.
        """
        tree, (text,) = SearchTree(), as_texts([text])
        result: Any = self.predict([text], **options, record=tree)[0]
        if not tree.stop:
            raise TextError("the model reads nothing of the text")
        tree.output = next(iter(result.record().values()))  # the first field of every record
        model, source, target = self.models[0], self.source.vocabulary, self.target.vocabulary
        best, weights = tree.hypotheses[tree.chosen].tokens, {}
        is_future = generate_square_subsequent_mask(1 + len(best), dtype=torch.bool)
        if len(self.models) == 1:
            maps = attention(model, tree.source, best, (source, target), self.device)
            weights = {kind: getattr(maps, kind) for kind in ("encoder", "decoder", "cross")}
        used = {n.token for n in tree.nodes} | {n.token for m in tree.nodes for n in m.following}
        return Trace(
            task=self.task,
            text=text,
            output=tree.output,
            model=self.properties() | asdict(model.config) | {"words": len(target)},
            source=[(source.itos[i], i) for i in (*tree.source, EOS_ID)],
            target=[(target.itos[i], i) for i in (BOS_ID, *best)],
            weights=weights,
            hidden={"decoder": is_future.tolist()},
            searches=[tree],
            words={token: target.itos[token] for token in used},
        )

    @overload
    def score(self, sources: str, targets: str, **options: Any) -> PairScore: ...

    @overload
    def score(
        self, sources: Iterable[str], targets: Iterable[str], **options: Any
    ) -> list[PairScore]: ...

    def score(
        self, sources: str | Iterable[str], targets: str | Iterable[str], **options: Any
    ) -> PairScore | list[PairScore]:
        """Returns how probable each of ``targets`` is, given the source at its position.

        Two strings are one pair and give one score. ``options`` are those of :func:`score_texts`.
        The rules of a task's form and the options of searches have no influence.

        Raises:
            TypeError: anything but two strings, or two lists of strings.
            TextError: the lists have different lengths, or a text is not valid Unicode.
        """
        if isinstance(sources, str) != isinstance(targets, str):
            raise TypeError("sources and targets must be two strings or two lists of strings")
        pairs = as_texts(sources, name="source"), as_texts(targets, name="target")
        if len(pairs[0]) != len(pairs[1]):
            raise TextError(
                f"each source needs one target: {len(pairs[0])} sources, {len(pairs[1])} targets"
            )
        read = [[*map(self.as_read, texts)] for texts in pairs]
        scores = self.score_as_read(*read, **options)
        return scores[0] if isinstance(sources, str) else scores

    def score_as_read(
        self, sources: Sequence[str], targets: Sequence[str], **options: Any
    ) -> list[PairScore]:
        """As :meth:`score`, for texts that are in the spelling of the model already."""
        codecs = self.source, self.target
        return score_texts(self.models, codecs, sources, targets, device=self.device, **options)

    def as_read(self, text: str) -> str:
        """Returns ``text`` in the spelling that the model knows; a task may have one."""
        return text

    def _pair(self, source: str, target: str) -> tuple[Sequence[int], Sequence[int]]:
        """Returns the ids of both texts. Raises a TextError if one is too long for the model."""
        (source,), (target,) = as_texts([source], name="source"), as_texts([target], name="target")
        pair = self.source.encode(self.as_read(source)), self.target.encode(self.as_read(target))
        for name, ids in zip(("source", "target"), pair, strict=True):
            if len(ids) >= self.max_len:  # with <eos> or <bos>
                raise TextError(
                    f"the {name} has {len(ids)} tokens, the model takes {self.max_len - 1}"
                )
        return pair

    @classmethod
    @abstractmethod
    def _load_one(cls, path: Path, device: torch.device) -> Self:
        """Loads the model in one folder."""

    @classmethod
    @abstractmethod
    def _join(cls, members: Sequence[Self]) -> Self:
        """Returns the ensemble of ``members``, which are compatible."""

    @abstractmethod
    def _compatibility(self) -> Mapping[str, str | Vocabulary]:
        """Returns what the models of an ensemble must have in common, by its name in messages."""

    @abstractmethod
    def _encode(self, texts: Sequence[str], request: GenerationRequest) -> E:
        """Returns ``texts`` as a search takes them."""

    @abstractmethod
    def _results(self, texts: Sequence[str], found: SearchResult[E]) -> list[R]:
        """Returns the result for each text, from its outputs, the best first."""
