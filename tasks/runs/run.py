"""A training run from its configuration to its metrics, the same for every task."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from transformer_suite.core.config import to_mapping
from transformer_suite.core.decoding.config import GenerationConfig
from transformer_suite.core.distributed.process_group import ProcessGroup
from transformer_suite.core.errors import (
    ChangedConditions,
    CheckpointError,
    ConfigError,
    Interrupted,
    UserError,
)
from transformer_suite.core.progress import log
from transformer_suite.core.storage.files import (
    exists,
    is_file,
    is_folder,
    reason_of,
    remove_partial_files,
    write_json,
)
from transformer_suite.core.storage.lock import only_writer
from transformer_suite.core.training.config import TrainConfig
from transformer_suite.core.training.fit import TrainingData, check_installed, fit
from transformer_suite.core.training.microbatches import LossFunction
from transformer_suite.core.training.state import STATE_FILE, STATE_FOLDER, Metrics, TrainingState
from transformer_suite.tasks import registry
from transformer_suite.tasks.runs.checkpoint_folder import (
    CONFIG_FILE,
    METRICS_FILE,
    check_begun,
    read_config,
    read_metrics,
    write_config,
)
from transformer_suite.tasks.runs.provenance import corpus_digests, provenance

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

    It makes the model and reads the corpus. ``out`` is the folder of the run; with
    ``has_vocabulary``, the vocabulary is loaded from there instead of being built.
    """

    def __call__(
        self, config: Any, *, corpus: Path, out: Path, device: torch.device, has_vocabulary: bool
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
        group: the processes that train together; None: this process alone.
        prepare: None: the task's own.

    Returns:
        The content of ``metrics.json``, in the main process alone.

    Raises:
        UserError: ``out`` already holds a run and ``resume`` is false, another process writes
            there, or the corpus cannot be used.
        ConfigError: ``resume`` with another configuration than that of the run.
        ChangedConditions: ``resume`` after a change that is not accepted.
        CheckpointError: ``resume`` without a run in ``out``.
        Interrupted: SIGINT or SIGTERM came.
    """
    data, out, device = Path(data), Path(out), torch.device(device)
    run = _TaskRun(
        task=task,
        config=config,
        data=data,
        out=out,
        device=device,
        resume=resume,
        accept_changes=accept_changes,
        group=group or ProcessGroup(),
        prepare=prepare or registry.module(task, "train").prepare,
    )
    if not run.group.is_main:
        return run.train()
    check_folder(task, config, out, resume)  # a folder that is refused is not touched
    check_installed(config.train, device)
    try:
        before = set(out.iterdir()) if is_folder(out) else None
    except OSError as error:
        raise UserError(f"{out}: cannot read: {reason_of(error)}") from error
    with (
        only_writer(out, lock=out / STATE_FOLDER / LOCK_FILE) as check_place,
        _nothing_left(out, before, check_place),
    ):
        check_folder(task, config, out, resume)  # another run may have begun or ended since
        for folder in (out, out / STATE_FOLDER):
            remove_partial_files(folder)
        return replace(run, check_place=check_place).train()


@contextmanager
def _nothing_left(
    out: Path, before: set[Path] | None, check_place: Callable[[], None]
) -> Iterator[None]:
    """Removes what a run has left in ``out`` if it fails before the training begins.

    ``before`` is what ``out`` contained, None if there was no such folder.
    """
    try:
        yield
    except BaseException:
        with suppress(OSError, UserError):
            check_place()
            if not exists(out / CONFIG_FILE):
                for path in set(out.iterdir()) - (before or set()):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                if before is None:
                    out.rmdir()
        raise


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
        config: Any = self.config
        if prepared.choose_search is not None:
            if not choices:
                measure_final()
            # The first of equal values: fit() keeps the best epoch unless the average beats it.
            chosen = max(choices, key=lambda choice: choice.value)
            log(str(chosen))
            config = replace(config, generation=chosen.generation)
            self.check_place()
            write_config(self.out, self.task, config)
        metrics = origin | _metrics(prepared, config, state, parameters)
        self.check_place()
        write_json(self.out / METRICS_FILE, metrics)
        return metrics

    def _prepare(self) -> Prepared:
        # The main process builds the vocabulary and encodes the corpus; the others load both.
        with self.group.main_process_first():
            torch.manual_seed(self.config.train.seed)
            return self.prepare(
                self.config,
                corpus=self.data,
                out=self.out,
                device=self.device,
                has_vocabulary=self._has_state() or not self.group.is_main,
            )

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
        command = read_metrics(self.out).get("command") if self.resume else None
        return provenance(self.task, command) | {
            "data": self.data.name,
            "seed": self.config.train.seed,
            "device": str(self.device),
            "processes": self.group.size,
            "threads": torch.get_num_threads(),
        }

    def _has_state(self) -> bool:
        """Whether there is a state to resume; a run stopped before its first save has none."""
        return self.resume and is_file(self.out / STATE_FOLDER / STATE_FILE)


def check_folder(task: str, config: TaskConfig, out: Path, resume: bool) -> None:
    """Checks that the run may use the folder ``out``; raises the errors of :func:`train`."""
    if resume:
        check_resumable(task, config, out)
    elif exists(out / CONFIG_FILE):
        raise UserError(
            f"{out}: there is a run in this folder; continue it with --resume, "
            "or name another --out"
        )


def check_resumable(task: str, config: TaskConfig, out: Path) -> None:
    """Checks that the run in ``out`` can continue with ``config``.

    The length of the run, the learning rate and the decoding options may change; the model, the
    corpus and the options that decide the batches may not.

    Raises:
        CheckpointError: there is no run of ``task`` in ``out``, or a finished model without the
            state of its run.
        ConfigError: names the options that have changed.
    """
    check_begun(out)
    state = out / STATE_FOLDER / STATE_FILE
    if not is_file(state) and "trained" in read_metrics(out):
        # The run would begin again, and its first epoch would replace the finished model.
        raise CheckpointError(
            f"{out}: cannot resume: the run is finished, and there is no {state}; "
            "name another --out"
        )
    before, now = to_mapping(read_config(out, task, type(config))), to_mapping(config)
    fixed = {"model": now["model"], "data": now["data"], "train": ("seed", "batch_tokens")}
    changed = [
        f"{section}.{key}"
        for section, keys in fixed.items()
        for key in keys
        if now[section][key] != before[section][key]
    ]
    if changed:
        raise ConfigError(
            f"{out}: {', '.join(changed)} cannot change in the middle of a run; "
            "restore the old value, or begin a new run in another --out"
        )


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
