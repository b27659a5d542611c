"""Classifying texts with a trained model."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import torch
from torch import Tensor

from core.config import check
from core.decoding.recording import check_sources
from core.device import choose_device
from core.errors import CheckpointError, CorpusError
from core.inference.attention_maps import recorded_weights
from core.parallel import map_on_cores
from core.storage.checkpoint import WEIGHTS_FILE, load_model
from data.batching import bucket_by_length, pad_sequence
from data.codec import TextCodec
from data.examples import IdLists, encode_texts
from data.vocabulary import UNK_ID
from tasks.classification.config import ClassificationConfig
from tasks.classification.dataset import normalize
from tasks.classification.decision import decide
from tasks.classification.model import ClassificationModel, PackedClassificationModel
from tasks.classification.sources import read_classes
from tasks.familiarity import Familiarity, familiarity_record
from tasks.inside import Decision, Trace
from tasks.predictor import Predictor
from tasks.runs.checkpoint_folder import Folders, model_folder, read_config
from tasks.seq2seq.request import OnBatch, ignore_batch
from tasks.texts import as_texts, keeps_index

if TYPE_CHECKING:
    from tasks.classification.explain import Explanation

DEFAULT_BATCH_TOKENS = 8000


def build_model(
    codec: TextCodec, classes: Sequence[str], config: ClassificationConfig
) -> ClassificationModel:
    """Returns a new model for the vocabulary of ``codec``."""
    tokens = codec.vocabulary.itos
    model = ClassificationModel(len(tokens), len(classes), config.model, tokens=tokens)
    model.ngram_weight = config.prediction.ngram_weight
    return model


@dataclass(frozen=True)
class Classification:
    """The class of a text, its probability, and those of all: first this one's, then the highest.

    It is the most probable class, unless the model has thresholds (:mod:`.decision`).
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    familiarity: float | None = None
    """How like the training data the text is, from 0 to 1 (:mod:`.familiarity`), if known."""

    def record(self) -> dict[str, Any]:
        """Returns the classification as plain values for JSON."""
        record: dict[str, Any] = {"label": self.label, "score": self.probability}
        record |= familiarity_record(self.familiarity)
        return {**record, "probabilities": self.probabilities}


class Outputs(NamedTuple):
    """The probabilities of the classes ``[N, C]`` and the pooled states ``[N, D]`` of N texts."""

    probabilities: Tensor
    states: Tensor


class Classifier(Predictor[Classification]):
    """A trained model, ready to classify: ``Classifier.load().classify("Stocks fell.")``."""

    task = "classification"
    sides = ("source",)

    def __init__(
        self,
        model: ClassificationModel,
        codec: TextCodec,
        classes: Sequence[str],
        config: ClassificationConfig,
        device: torch.device,
    ) -> None:
        self.model = model
        self.models = [model]
        self.codec = codec
        self.classes = list(classes)
        self.config = config
        self.device = device
        self.familiarity: Familiarity | None = None
        self._compute: Callable[[Tensor], tuple[Tensor, Tensor]] = model.scores_and_states

    @property
    def codecs(self) -> dict[str, Any]:
        return {"codec": self.codec, "classes": self.classes}

    @classmethod
    def load(
        cls, folder: Folders = None, *, device: str = "auto", early_exit: float | None = None
    ) -> "Classifier":
        """Loads the model in ``folder``, or the pretrained one.

        Args:
            early_exit: a probability. Where the n-grams of a model are this certain of a class, the
                encoder does not read the text, which is faster. Such a text has no familiarity.

        Raises:
            ConfigError: ``early_exit`` above 1, not above 0, or for a model without n-grams.
            CheckpointError: the folder is missing, incomplete, damaged or another task's.
        """
        if early_exit is not None:
            is_right = 0.0 < early_exit <= 1.0
            check(is_right, "early_exit", early_exit, "above 0 and at most 1")
        if isinstance(folder, Sequence) and not isinstance(folder, str):
            raise TypeError("a classifier is one model, not an ensemble")
        path = model_folder(cls.task, folder)
        chosen = choose_device(device)
        config = read_config(path, cls.task, ClassificationConfig)
        if config.data.clean is None:  # a model of version 1.0
            config = replace(config, data=replace(config.data, clean=True))
        codec = TextCodec.load(path, tokenizer=config.data.tokenizer)
        try:
            classes = read_classes(path)
        except CorpusError as error:
            raise CheckpointError(str(error)) from error
        model = load_model(path / WEIGHTS_FILE, lambda: build_model(codec, classes, config))
        classifier = cls(model.to(chosen).eval(), codec, classes, config, chosen)
        packed = PackedClassificationModel(
            classifier.model, early_exit=early_exit, temperature=config.prediction.temperature
        )
        classifier._compute = packed.scores_and_states
        classifier.familiarity = Familiarity.load(path, width=config.model.d_model)
        return classifier

    @overload
    def classify(self, texts: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, texts: Iterable[str]) -> list[str]: ...

    @keeps_index
    def classify(self, texts: str | Iterable[str]) -> str | list[str]:
        """Returns the most probable class of each text; "" for an empty text.

        A single string is one text and gives one string.

        Raises:
            TypeError: anything but a string or an iterable of strings.
            TextError: a text that is not valid Unicode.
        """
        if isinstance(texts, str):
            return self.classify_scored(texts).label
        return [result.label for result in self.classify_scored(texts)]

    classify_scored = Predictor[Classification].scored
    """As :meth:`classify`, with probabilities; the options are those of :meth:`predict`."""

    def predict(
        self,
        texts: str | Iterable[str],
        *,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        on_batch: OnBatch = ignore_batch,
    ) -> list[Classification]:
        """Returns the classification of each text; a string is one text.

        Args:
            batch_tokens: the maximum size of a batch in tokens.
            on_batch: called after each batch with its number of segments.
        """
        cleaned = [self.as_read(text) for text in as_texts(texts)]
        probabilities, states = self.outputs(
            self.encode(cleaned), batch_tokens=batch_tokens, on_batch=on_batch
        )
        familiar: list[float | None] = [None] * len(cleaned)
        if self.familiarity is not None:
            found = zip(self.familiarity.of(states).tolist(), states, strict=True)
            familiar = [None if state.isnan().any() else value for value, state in found]
        chosen = self.decide(probabilities).tolist()
        results = []
        rows = zip(cleaned, probabilities.tolist(), chosen, familiar, strict=True)
        for text, row, number, familiarity in rows:
            label, others = self.classes[number], zip(self.classes, row, strict=True)
            by_class = {label: row[number]} | dict(sorted(others, key=lambda c: -c[1]))
            result = Classification(label, row[number], by_class, familiarity)
            results.append(result if text else Classification("", 0.0, {}))
        return results

    def explain(self, texts: str | Iterable[str], **options: Any) -> "list[Explanation]":
        """Returns what each word of the texts adds to the log-odds of their classes.

        ``options`` are those of :meth:`outputs`; the errors are those of :meth:`classify`.
        """
        from tasks.classification.explain import explain

        return explain(self, texts, **options)

    def kind(self) -> str:
        return f"{len(self.classes)} classes"

    def trace(self, text: str) -> Trace:
        """Returns the classification of ``text`` with all that can be seen of it.

        Raises:
            TextError: the text has no token, or more than 60.
        """
        ids = [*self.encode([self.as_read(text)])] if self.as_read(text) else [[]]
        check_sources(ids)
        (result,), (explanation,) = self.predict(text), self.explain(text)
        src, layers = pad_sequence(ids).to(self.device), self.model.encoder.layers
        with torch.no_grad(), recorded_weights(layers, "self_attn") as weights:
            parts = dict(zip(("encoder", "ngrams"), self.model.scores_of_parts(src), strict=False))
        parts["together"] = self._compute(src)[0]
        scores = {part: found[0].tolist() for part, found in parts.items()}
        probabilities = {name: result.probabilities[name] for name in self.classes}
        added = [(each.word, each.contribution) for each in explanation.words]
        words, temperature = self.codec.vocabulary.itos, self.config.prediction.temperature
        return Trace(
            task=self.task,
            text=text,
            output=result.label,
            model=asdict(self.config.model) | {"ngram_weight": self.model.ngram_weight},
            source=[(words[i], i) for i in ids[0]],
            weights={"encoder": torch.cat(weights).float().cpu().numpy()},
            decision=Decision(scores, temperature, probabilities, added),
        )

    def embedding(self, side: str) -> tuple[TextCodec, Tensor]:
        return self.codec, self.model.embedding.weight

    def properties(self) -> dict[str, Any]:
        return {"classes": list(self.classes)}

    def as_read(self, text: str) -> str:
        return normalize(text, self.config.data)

    def encode(self, texts: Sequence[str]) -> IdLists:
        """Returns the ids of texts as the model reads them; ``<unk>`` for one without tokens."""
        return encode_texts(self.codec, texts, empty=[UNK_ID])

    def check_thresholds(self) -> None:
        """Raises a ConfigError for a threshold of a class that the model does not have."""
        self.decide(torch.zeros(0, len(self.classes)))

    def decide(self, probabilities: Tensor) -> Tensor:
        """Returns the number of the class ``[N]`` for each row of probabilities ``[N, C]``."""
        return decide(probabilities, self.classes, self.config.prediction.thresholds)

    def outputs(
        self,
        texts: Sequence[Sequence[int]],
        *,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        on_batch: OnBatch = ignore_batch,
    ) -> Outputs:
        """Returns what the model says of texts as ids; zeros for a text without ids.

        A text that is too long for the model is split into segments. Its output is the average over
        the segments, weighted by their lengths.
        """
        temperature = self.config.prediction.temperature
        size = self.config.model.max_len
        if isinstance(self.config.data.max_sen_len, int):
            size = min(size, self.config.data.max_sen_len)
        segments = [
            (n, ids[start : start + size])
            for n, ids in enumerate(texts)
            for start in range(0, len(ids), size)
        ]
        widths = len(self.classes), self.config.model.d_model
        total = torch.zeros(len(texts), sum(widths))
        lengths = [(len(ids),) for _, ids in segments]
        buckets = bucket_by_length(lengths, batch_tokens=batch_tokens, seed=None)
        # The longest first, so that no core is left with a long batch at the end.
        batches = [[segments[i] for i in bucket] for bucket in reversed(buckets)]

        @torch.inference_mode()
        def compute(batch: Sequence[tuple[int, Sequence[int]]]) -> Tensor:
            scores, states = self._compute(pad_sequence([ids for _, ids in batch]).to(self.device))
            probabilities = (scores.float() / temperature).softmax(dim=-1)
            return torch.cat([probabilities, states.float()], dim=1).cpu()

        workers = None if self.device.type == "cpu" else 1
        for batch, found in zip(
            batches, map_on_cores(compute, batches, workers=workers), strict=True
        ):
            weights = torch.tensor([float(len(ids)) for _, ids in batch])
            numbers = torch.tensor([number for number, _ in batch])
            total.index_add_(0, numbers, found * weights.unsqueeze(1))
            on_batch(len(batch))
        # The probabilities of a text sum to its length.
        total /= total[:, : widths[0]].sum(dim=1, keepdim=True).clamp(min=1e-9)
        return Outputs(*total.split(widths, dim=1))
