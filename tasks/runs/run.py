"""A training run from its configuration to its metrics, the same for every task."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from core.config import to_mapping
from core.distributed.process_group import Disconnected
from core.errors import ChangedConditions, ConfigError, Interrupted, UserError
from core.progress import log
from core.storage.files import (
    atomic_write,
    exists,
    is_folder,
    reason_of,
    remove_partial_files,
    write_json,
)
from core.storage.lock import only_writer
from core.training.fit import Objective, fit
from core.training.gradient import precision_for
from core.training.state import STATE_FOLDER, TrainingState
from tasks.runs.checkpoint_folder import (
    CONFIG_FILE,
    METRICS_FILE,
    check_begun,
    file_digests,
    read_config,
    read_metrics,
    text_files,
    write_config,
)
from tasks.runs.initial import check_alike, load_initial_weights
from tasks.runs.provenance import corpus_digests, provenance
from tasks.runs.training import RunOptions, SearchChoice, Training

LOCK_FILE = "lock"

# What must not change on the way: with another one of these options of ``train``, the position in
# an epoch would be a position among other batches.
_FIXED_OPTIONS = ("seed", "batch_tokens")


def train(config: Any, options: RunOptions, training: type[Training]) -> dict[str, Any]:
    """Trains a model and leaves a checkpoint folder.

    The best model is measured on the test split. A finished run that is resumed with the same
    number of epochs is measured again and stays as it is.

    Args:
        config: has the sections ``model``, ``data`` and ``train``, and perhaps others.
        training: the class of the task's training.

    Returns:
        The content of ``metrics.json``, in the main process alone.

    Raises:
        UserError: ``out`` already holds a run and ``resume`` is false, another process writes
            there, or the corpus cannot be used.
        ConfigError: ``resume`` with another configuration than that of the run, or ``init`` with
            another one than that of the model. ``new_vocabulary`` for classification.
        ChangedConditions: ``resume`` after a change that is not accepted.
        CheckpointError: ``resume`` without a run in ``out``, or no model of ``task`` in ``init``.
        Interrupted: SIGINT, SIGTERM or SIGHUP came.
    """
    if not options.group.is_main:
        return _Run(config, options, training).train()
    task = training.task
    if options.init is not None:
        check_alike(options.init, task, config, new_vocabulary=options.new_vocabulary)
    with locked_folder(task, config, options.out, options.resume) as check_folder:
        return _Run(config, replace(options, check_folder=check_folder), training).train()


@dataclass(frozen=True)
class _Run:
    """The arguments of :func:`train`, and its steps once ``out`` is checked and locked."""

    config: Any
    options: RunOptions
    training: type[Training]

    def train(self) -> dict[str, Any]:
        """Prepares, trains, measures, and writes ``metrics.json``."""
        options, out, device = self.options, self.options.out, self.options.device
        origin = self._provenance()
        training = self._prepare()
        config = training.config
        parameters = sum(p.numel() for p in training.model.parameters())
        place = str(device) if options.group.size == 1 else f"{options.group.size} x {device.type}"
        log(
            f"{training.task}: {parameters:,} parameters on {place} in {self._precision}, "
            f"seed {self.config.train.seed}, into {out}"
        )

        def on_begin() -> None:
            write_config(out, training.task, config)
            write_json(out / METRICS_FILE, origin)

        choices: list[SearchChoice] = []

        def measure_final() -> float:
            choices.append(training.choose_search())
            return choices[-1].value

        try:
            objective = Objective(
                data=training.data,
                loss=training.loss,
                validate=training.validate,
                metric=training.metric,
                measure_final=measure_final if training.chooses_search else None,
            )
            fit_options = replace(
                options,
                conditions=self._conditions(training.files),
                on_begin=on_begin,
                digests=file_digests(out),
            )
            state = fit(training.model, config.train, objective, fit_options)
        except (Interrupted, Disconnected) as stop:
            message = f"{stop}; --resume, with the same folders, continues the run"
            raise type(stop)(message) from stop
        except ChangedConditions as error:
            raise ChangedConditions(
                f"{error}; restore them, or resume with --accept-changes, which metrics.json notes"
            ) from error
        if not options.group.is_main:
            return {}
        if (done := state.epoch - 1) > config.train.epochs:
            log(f"{out}: {done} epochs were done already, more than train.epochs")
        if training.chooses_search:
            if not choices:
                measure_final()
            # The first of equal values: fit() keeps the best epoch unless the average beats it.
            chosen = max(choices, key=lambda choice: choice.value)
            search, name = chosen.generation, training.metric.removeprefix("val_").upper()
            log(
                f"search chosen on validation: beam {search.beam_size}, length penalty "
                f"{search.length_penalty:g} ({name} {chosen.value:.2f}; greedy {chosen.greedy:.2f})"
            )
            config = replace(config, generation=search)
        config = training.calibrate(config)
        if config is not training.config:
            options.check_folder()
            write_config(out, training.task, config)
        metrics = origin | {"parameters": parameters} | _metrics(training, config, state)
        options.check_folder()
        write_json(out / METRICS_FILE, metrics)
        return metrics

    def _prepare(self) -> Training:
        options = self.options
        # The main process builds the vocabulary and encodes the corpus; the others load both.
        with options.group.main_process_first():
            torch.manual_seed(self.config.train.seed)
            training = self.training(self.config, options, self._vocabulary())
            if options.init is not None and options.group.is_main:
                tokens = training.token_weights(options.init) if options.new_vocabulary else {}
                own = training.new_weights()
                load_initial_weights(options.init, training.model, except_for=own, tokens=tokens)
            return training

    def _vocabulary(self) -> Path | None:
        """Returns the folder to load the vocabulary from, or None to build it."""
        out, init = self.options.out, self.options.init
        if self.options.resume or not self.options.group.is_main:
            return out
        if self.options.new_vocabulary:
            return None
        if init is not None:
            for name, content in text_files(init).items():
                with atomic_write(out / name) as temporary:
                    temporary.write_bytes(content)
        return init

    @property
    def _precision(self) -> str:
        return precision_for(self.options.device, self.config.train.precision)

    def _conditions(self, files: Sequence[Path]) -> dict[str, str]:
        """Returns what the bits of the run depend on besides its configuration."""
        if not self.options.group.is_main:
            return {}
        device = self.options.device.type
        conditions = corpus_digests(self.options.data, files)
        conditions |= {"the device": device, "torch": torch.__version__}
        conditions["the precision"] = self._precision
        if device == "cpu":
            conditions["the number of threads"] = str(torch.get_num_threads())
        return conditions

    def _provenance(self) -> dict[str, Any]:
        options = self.options
        # A resumed run keeps the command that began it: the other one cannot repeat the run.
        before = read_metrics(options.out) if options.resume else {}
        init = before.get("init") if options.init is None else str(options.init)
        return provenance(self.training.task, before.get("command")) | {
            "data": options.data.name,
            **({} if init is None else {"init": init}),
            "seed": self.config.train.seed,
            "device": str(options.device),
            "processes": options.group.size,
            "threads": torch.get_num_threads(),
        }


def _metrics(training: Training, config: Any, state: TrainingState) -> dict[str, Any]:
    """Measures the trained model. Returns what ``metrics.json`` says besides the provenance."""
    validation, report = training.validate(), training.evaluate(config)
    test = {} if report is None else report.record()
    if report is None and (digest := training.dataset.splits.digest()):
        test = {"sha256": digest}  # of the table, which was trained on
    return {
        "validation": validation,
        "test": test,
        "best_epoch": state.best_epoch,
        "averaged_epochs": state.averaged,
        "epochs": state.epoch - 1,
        "steps": state.step,
        **({"changes": state.changes} if state.changes else {}),
        "training_seconds": round(sum(row.seconds or 0.0 for row in state.history)),
        "trained": datetime.now(UTC).date().isoformat(),
        "history": [row.columns() for row in state.history],
    }


@contextmanager
def locked_folder(task: str, config: Any, out: Path, resume: bool) -> Iterator[Callable[[], None]]:
    """Keeps other runs out of ``out``, and removes what a run that fails before it begins leaves.

    Yields a function that raises a UserError if ``out`` has been removed or replaced since. Raises
    a UserError if ``out`` already holds a run; with ``resume``, if it does not hold this one.
    """
    check_folder(task, config, out, resume)  # a folder that is refused is not touched
    try:
        before = set(out.iterdir()) if is_folder(out) else None
    except OSError as error:
        raise UserError(f"{out}: cannot read: {reason_of(error)}") from error
    with only_writer(out, lock=out / STATE_FOLDER / LOCK_FILE) as check_place:
        try:
            check_folder(task, config, out, resume)  # another run may have begun or ended since
            for folder in (out, out / STATE_FOLDER):
                remove_partial_files(folder)
            yield check_place
        except BaseException:
            with suppress(OSError, UserError):
                check_place()
                if not exists(out / CONFIG_FILE):
                    for path in set(out.iterdir()) - (before or set()):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                    if before is None:
                        out.rmdir()
            raise


def check_folder(task: str, config: Any, out: Path, resume: bool) -> None:
    """Raises a UserError unless a run may use the folder ``out``.

    The length of a run that is resumed, its learning rate and its decoding options may change; the
    model, the corpus and the options that decide the batches may not.
    """
    if not resume:
        if exists(out / CONFIG_FILE):
            raise UserError(
                f"{out}: there is a run in this folder; continue it with --resume, "
                "or name another --out"
            )
        return
    check_begun(out)
    before, now = to_mapping(read_config(out, task, type(config))), to_mapping(config)
    fixed = {"model": now["model"], "data": now["data"], "train": _FIXED_OPTIONS}
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
