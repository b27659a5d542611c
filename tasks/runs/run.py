"""A training run from its configuration to its metrics, the same for every task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from core.decoding.config import GenerationConfig
from core.distributed.process_group import ProcessGroup
from core.errors import ChangedConditions, ConfigError, Interrupted, UserError
from core.progress import log
from core.storage.files import (
    atomic_write,
    is_file,
    is_folder,
    reason_of,
    remove_partial_files,
    write_json,
)
from core.storage.lock import only_writer
from core.training.config import TrainConfig
from core.training.fit import TrainingData, check_installed, fit
from core.training.microbatches import LossFunction
from core.training.state import STATE_FILE, STATE_FOLDER, Metrics, TrainingState
from tasks import registry
from tasks.runs.checkpoint_folder import (
    METRICS_FILE,
    read_metrics,
    text_files,
    write_config,
)
from tasks.runs.initial import INITIAL_FILE, InitialWeights, check_alike
from tasks.runs.new_vocabulary import TokenWeights
from tasks.runs.provenance import corpus_digests, provenance
from tasks.runs.run_folder import check_folder, nothing_left

LOCK_FILE = "lock"


class TaskConfig(Protocol):
    """The sections that the configurations of all tasks have."""

    @property
    def model(self) -> Any: ...

    @property
    def data(self) -> Any: ...

    @property
    def train(self) -> TrainConfig: ...


@dataclass
class Prepared:
    """What a task brings to a run: its model, its data, its loss and its measurements."""

    model: nn.Module
    data: TrainingData
    loss: LossFunction
    validate: Callable[[], Metrics]
    metric: str
    evaluate: Callable[[Any], dict[str, Any]]
    """Takes the final configuration and returns the report on the test split. Called once, at the
    end of the run."""
    files: Sequence[Path] = ()
    """The files of the corpus that the run reads: a resumed run must find the same contents."""
    choose_search: Callable[[], SearchChoice] | None = None
    """Chooses how to search with the current weights; None: as the configuration says."""
    calibrate: Callable[[Any], Any] | None = None
    """Takes the configuration and returns the final one, with what is fitted on the validation data
    once the weights are final. Called once, before ``evaluate``."""
    new_weights: Sequence[str] = ()
    """The names of the weights that a run does not take from its initial model, because they belong
    to what that model does not know, such as other classes."""
    token_weights: Callable[[Path], TokenWeights] | None = None
    """Takes the folder of an initial model with another vocabulary. Returns the weights that have
    one row per token, with the codec of that model and that of the run. None: the run must have the
    vocabulary of its initial model."""


class SearchChoice(Protocol):
    """A search that was chosen on the validation data. It is printed as one line."""

    @property
    def generation(self) -> GenerationConfig: ...

    @property
    def value(self) -> float:
        """The metric of the run, with this search."""
        ...


class Prepare(Protocol):
    """The function ``prepare`` in the module ``train`` of every task.

    It makes the model and reads the corpus. ``out`` is the folder of the run. ``vocabulary`` is the
    folder to load the vocabulary from: ``out``, or that of the initial model; None: build it.
    """

    def __call__(
        self,
        config: Any,
        *,
        corpus: Path,
        out: Path,
        device: torch.device,
        vocabulary: Path | None,
    ) -> Prepared: ...


def train(
    task: str,
    config: TaskConfig,
    *,
    data: str | Path,
    out: str | Path,
    device: str | torch.device,
    resume: bool = False,
    accept_changes: bool = False,
    init: str | Path | None = None,
    new_vocabulary: bool = False,
    group: ProcessGroup | None = None,
    prepare: Prepare | None = None,
) -> dict[str, Any]:
    """Trains a model on the corpus in ``data`` and leaves a checkpoint folder in ``out``.

    The best model is measured on the test split. A finished run that is resumed with the same
    number of epochs is measured again and stays as it is.

    Args:
        resume: continue the run in ``out``.
        accept_changes: continue it with another corpus, number of threads, kind of device or
            version of torch, too. ``metrics.json`` then lists the changes.
        init: the folder of a model to start from: its weights and its vocabulary. ``config`` must
            have the same languages, the same options of the vocabulary, and the same model section,
            where only ``dropout``, ``ngram_dropout``, ``max_len`` and ``aligned`` may differ. A
            classifier for other classes gets a new last layer. Such a run is resumed without
            ``init``.
        new_vocabulary: with ``init``: build a vocabulary from the corpus. Tokens that the initial
            model does not know start from the vectors of its tokens that form them
            (:mod:`tasks.runs.new_vocabulary`).
        group: the processes that train together; None: this process alone.
        prepare: None: the task's own.

    Returns:
        The content of ``metrics.json``, in the main process alone.

    Raises:
        UserError: ``out`` already holds a run and ``resume`` is false, another process writes
            there, or the corpus cannot be used.
        ConfigError: ``resume`` with another configuration than that of the run, or ``init`` with
            another one than that of the model; or both options together. ``new_vocabulary`` for
            classification.
        ChangedConditions: ``resume`` after a change that is not accepted.
        CheckpointError: ``resume`` without a run in ``out``, or no model of ``task`` in ``init``.
        Interrupted: SIGINT or SIGTERM came.
    """
    data, out, device = Path(data), Path(out), torch.device(device)
    init = None if init is None else Path(init)
    if resume and init is not None:
        raise ConfigError("a run that is resumed has its weights already: leave out init")
    run = _TaskRun(
        task=task,
        config=config,
        data=data,
        out=out,
        device=device,
        resume=resume,
        accept_changes=accept_changes,
        init=init,
        new_vocabulary=new_vocabulary,
        group=group or ProcessGroup(),
        prepare=prepare or registry.module(task, "train").prepare,
    )
    if not run.group.is_main:
        return run.train()
    check_folder(task, config, out, resume)  # a folder that is refused is not touched
    if init is not None:
        check_alike(init, task, config, new_vocabulary=new_vocabulary)
    check_installed(config.train, device)
    try:
        before = set(out.iterdir()) if is_folder(out) else None
    except OSError as error:
        raise UserError(f"{out}: cannot read: {reason_of(error)}") from error
    with (
        only_writer(out, lock=out / STATE_FOLDER / LOCK_FILE) as check_place,
        nothing_left(out, before, check_place),
    ):
        check_folder(task, config, out, resume)  # another run may have begun or ended since
        for folder in (out, out / STATE_FOLDER):
            remove_partial_files(folder)
        return replace(run, check_place=check_place).train()


@dataclass(frozen=True, kw_only=True)
class _TaskRun:
    """The arguments of :func:`train`, and its steps once ``out`` is checked and locked."""

    task: str
    config: TaskConfig
    data: Path
    out: Path
    device: torch.device
    resume: bool
    accept_changes: bool
    init: Path | None
    new_vocabulary: bool
    group: ProcessGroup
    prepare: Prepare
    check_place: Callable[[], None] = lambda: None
    """Raises a UserError if ``out`` has been removed or replaced."""

    def train(self) -> dict[str, Any]:
        """Prepares, trains, measures, and writes ``metrics.json``."""
        origin = self._provenance()
        prepared = self._prepare()
        parameters = sum(p.numel() for p in prepared.model.parameters())
        size, device, seed = self.group.size, self.device, self.config.train.seed
        place = str(device) if size == 1 else f"{size} x {device.type}"
        log(f"{self.task}: {parameters:,} parameters on {place}, seed {seed}, into {self.out}")

        def on_begin() -> None:
            write_config(self.out, self.task, self.config)
            write_json(self.out / METRICS_FILE, origin)

        choices: list[SearchChoice] = []

        def measure_final() -> float:
            assert prepared.choose_search is not None
            choices.append(prepared.choose_search())
            return choices[-1].value

        try:
            state = fit(
                prepared.model,
                data=prepared.data,
                loss=prepared.loss,
                validate=prepared.validate,
                metric=prepared.metric,
                config=self.config.train,
                folder=self.out,
                device=self.device,
                resume=self.group.broadcast(self._has_state),
                conditions=self._conditions(prepared.files),
                accept_changes=self.accept_changes,
                check_folder=self.check_place,
                on_begin=on_begin,
                measure_final=None if prepared.choose_search is None else measure_final,
                group=self.group,
            )
        except Interrupted as stop:
            message = f"{stop}; --resume, with the same folders, continues the run"
            raise Interrupted(message) from stop
        except ChangedConditions as error:
            raise ChangedConditions(
                f"{error}; restore them, or resume with --accept-changes, which metrics.json notes"
            ) from error
        if not self.group.is_main:
            return {}
        self._initial.remove()
        config: Any = self.config
        if prepared.choose_search is not None:
            if not choices:
                measure_final()
            # The first of equal values: fit() keeps the best epoch unless the average beats it.
            chosen = max(choices, key=lambda choice: choice.value)
            log(str(chosen))
            config = replace(config, generation=chosen.generation)
        if prepared.calibrate is not None:
            config = prepared.calibrate(config)
        if config is not self.config:
            self.check_place()
            write_config(self.out, self.task, config)
        metrics = origin | _metrics(prepared, config, state, parameters)
        self.check_place()
        write_json(self.out / METRICS_FILE, metrics)
        return metrics

    def _prepare(self) -> Prepared:
        self.group.set_main_process_limit(self.config.train.main_process_timeout)
        # The main process builds the vocabulary and encodes the corpus; the others load both.
        with self.group.main_process_first():
            torch.manual_seed(self.config.train.seed)
            if self.group.is_main and not self.resume:
                self._initial.remove()  # a run that was killed before it began may have left it
            prepared = self.prepare(
                self.config,
                corpus=self.data,
                out=self.out,
                device=self.device,
                vocabulary=self._vocabulary(),
            )
            if self.init is not None and self.group.is_main:
                self._initial.take(
                    self.init,
                    prepared.model,
                    except_for=prepared.new_weights,
                    tokens=self._token_weights(prepared, self.init),
                )
            self._initial.load_into(prepared.model)
            return prepared

    def _token_weights(self, prepared: Prepared, init: Path) -> TokenWeights:
        """Returns the weights that change with the vocabulary."""
        if not self.new_vocabulary:
            return {}
        if prepared.token_weights is None:
            raise ConfigError(f"a model for {self.task} cannot change its vocabulary")
        return prepared.token_weights(init)

    def _vocabulary(self) -> Path | None:
        """Returns the folder to load the vocabulary from, or None to build it."""
        if self._has_state() or self._initial.exists() or not self.group.is_main:
            return self.out
        if self.new_vocabulary:
            return None
        if self.init is not None:
            for name, content in text_files(self.init).items():
                with atomic_write(self.out / name) as temporary:
                    temporary.write_bytes(content)
        return self.init

    @property
    def _initial(self) -> InitialWeights:
        return InitialWeights(self.out / STATE_FOLDER / INITIAL_FILE)

    def _conditions(self, files: Sequence[Path]) -> dict[str, str]:
        """Returns what the bits of the run depend on besides its configuration."""
        if not self.group.is_main:
            return {}
        conditions = corpus_digests(self.data, files)
        conditions |= {"the device": self.device.type, "torch": torch.__version__}
        if self.device.type == "cpu":
            conditions["the number of threads"] = str(torch.get_num_threads())
        return conditions

    def _provenance(self) -> dict[str, Any]:
        # A resumed run keeps the command that began it: the other one cannot repeat the run.
        before = read_metrics(self.out) if self.resume else {}
        init = before.get("init") if self.init is None else str(self.init)
        return provenance(self.task, before.get("command")) | {
            "data": self.data.name,
            **({} if init is None else {"init": init}),
            "seed": self.config.train.seed,
            "device": str(self.device),
            "processes": self.group.size,
            "threads": torch.get_num_threads(),
        }

    def _has_state(self) -> bool:
        """Whether there is a state to resume; a run stopped before its first save has none."""
        return self.resume and is_file(self.out / STATE_FOLDER / STATE_FILE)


def _metrics(
    prepared: Prepared, config: TaskConfig, state: TrainingState, parameters: int
) -> dict[str, Any]:
    """Measures the trained model. Returns what ``metrics.json`` says besides the provenance."""
    return {
        "validation": prepared.validate(),
        "test": prepared.evaluate(config),
        "best_epoch": state.best_epoch,
        "averaged_epochs": state.averaged,
        "epochs": state.epoch - 1,
        "steps": state.step,
        "parameters": parameters,
        **({"changes": state.changes} if state.changes else {}),
        "training_seconds": round(sum(row["seconds"] for row in state.history)),
        "trained": datetime.now(UTC).date().isoformat(),
        "history": state.history,
    }
