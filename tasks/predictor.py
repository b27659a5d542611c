"""What the predictors of all tasks are: a trained model, or several as one, ready for texts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

import torch
from torch import Tensor

from data.codec import TextCodec
from tasks.texts import keeps_index

if TYPE_CHECKING:
    from tasks.runs.checkpoint_folder import Folders
    from tasks.seq2seq.request import OnBatch

R = TypeVar("R")


class Predictor(ABC, Generic[R]):
    """The base class of :class:`Translator`, :class:`Classifier` and :class:`CoupletWriter`.

    Attributes:
        task: the name of the task.
        trial: a text to try a model with.
        sides: those that have an embedding.
        models: the model, or the models of an ensemble, in evaluation mode.
        config: the configuration of the run.
    """

    task: ClassVar[str]
    trial: ClassVar[str] = "a"
    sides: ClassVar[tuple[str, ...]] = ("source", "target")
    models: Sequence[Any]
    config: Any
    device: torch.device

    @classmethod
    @abstractmethod
    def load(cls, folder: "Folders" = None, *, device: str = "auto") -> Self:
        """Loads the model in ``folder``, the shipped one by default."""

    @abstractmethod
    def predict(
        self, texts: str | Iterable[str], *, batch_tokens: int = ..., on_batch: "OnBatch" = ...
    ) -> list[R]:
        """Returns the result of each of ``texts``, each with a ``record()`` for JSON.

        Args:
            batch_tokens: the most tokens in a batch.
            on_batch: called after each batch with its number of segments.
        """

    @overload
    def scored(self, texts: str, **options: Any) -> R: ...

    @overload
    def scored(self, texts: Iterable[str], **options: Any) -> list[R]: ...

    @keeps_index
    def scored(self, texts: str | Iterable[str], **options: Any) -> R | list[R]:
        """As :meth:`predict`, but a single string, which is one text, gives one result."""
        results = self.predict(texts, **options)
        return results[0] if isinstance(texts, str) else results

    @property
    @abstractmethod
    def codecs(self) -> dict[str, Any]:
        """What a corpus for this model is read with, as arguments of the task's dataset."""

    @abstractmethod
    def embedding(self, side: str) -> tuple[TextCodec, Tensor]:
        """Returns the codec and the embedding ``[V, D]`` of one of ``sides``."""

    @abstractmethod
    def properties(self) -> dict[str, Any]:
        """Returns what the clients of a service may know about the model."""

    def __repr__(self) -> str:
        count = sum(each.numel() for each in self.models[0].parameters())
        ensemble = f"{len(self.models)} models of " if len(self.models) > 1 else ""
        size = f"{count / 1e6:.1f} M" if count >= 1e5 else f"{count:,}"
        kind = f"{self.kind()}, " if self.kind() else ""
        return f"{type(self).__name__}({kind}{ensemble}{size} parameters, {self.device})"

    def kind(self) -> str:
        """Returns what tells this model from others of its class, for its representation."""
        return ""

    def as_read(self, text: str) -> str:
        """Returns ``text`` as the model reads it."""
        return text

    def refusal(self, text: str) -> str | None:
        """Returns the reason why the task cannot take ``text``; None if it can."""
        return None

    def try_out(self) -> None:
        """Computes one result, which fails if the model's outputs are not numbers."""
        self.predict([self.trial])
