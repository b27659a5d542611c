"""The device that a model runs on, and the number of threads."""

import os
from contextlib import suppress
from pathlib import Path

import torch

from core.errors import ConfigError, UserError

_LOAD_FILE = Path("/proc/loadavg")
_QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")  # "max 100000" or "150000 100000"


def choose_device(name: str, *, local_rank: int | None = None) -> torch.device:
    """Returns the device "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".

    With "auto" and "cuda", each ``local_rank`` of several processes gets a GPU of its own.

    For a GPU, float32 products use TF32, and cuDNN's attention is off: it plans each new shape
    anew, and batches come in many. For the same reason the allocator is asked for segments that
    grow, unless the environment configures it. PyTorch reads that when it first allocates.

    Raises:
        ConfigError: no device has this name.
        UserError: this machine has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and local_rank is not None:
        name = f"cuda:{local_rank}"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"must be auto, cpu, cuda or cuda:N, not {name!r}", option="device")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        hint = "start one process for each of them, or use cpu" if count else "use cpu"
        raise UserError(f"device {name}: this machine has {count} usable GPUs; {hint}")
    if device.type == "cuda":
        if not {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} & os.environ.keys():
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.set_float32_matmul_precision("high")
    return device


def use_threads(count: int | None = None) -> int:
    """Sets the number of threads that torch computes with, and returns it.

    None: the number of :func:`free_cores`, unless ``OMP_NUM_THREADS`` decides.
    """
    if count is None and "OMP_NUM_THREADS" not in os.environ:
        count = min(free_cores(), torch.get_num_threads())
    if count is not None:
        torch.set_num_threads(count)
    return torch.get_num_threads()


def free_cores() -> int:
    """Returns the number of processor cores that this process can have for itself; at least 1.

    These are the cores that it may use (affinity, limits of its cgroup), less those that other
    processes keep busy. With more threads than free cores, the threads wait for one another in
    every operation: on a busy machine that is many times slower than one thread.
    """
    cores = os.cpu_count() or 1
    allowed = _quota(cores)
    if hasattr(os, "sched_getaffinity"):
        allowed = min(allowed, len(os.sched_getaffinity(0)))
    return max(1, min(allowed, cores - _busy_cores()))


def limit_kernel_caches(kernels: int) -> None:
    """Makes oneDNN keep this many of its kernels on a CPU: it compiles one for every shape.

    By default it keeps a thousand, of some hundred kilobytes each, or of megabytes in bf16. Batches
    come in all shapes, so memory grows for a long time. oneDNN and PyTorch read these environment
    variables when they make their first kernel; values that are set already stay.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, str(kernels))


def _quota(cores: int) -> int:
    """The number of whole cores that the cgroup of this process (a container, a job) may use."""
    with suppress(OSError, ValueError):  # ValueError: "max"
        quota, period = map(int, _QUOTA_FILE.read_text().split())
        return max(1, quota // period)
    return cores


def _busy_cores() -> int:
    """The number of cores that other processes use, now and in the last minute.

    The load of the last minute alone would count a run of our own that has just ended; the
    processes that run now may be gone in a moment. The smaller number of the two is taken.
    """
    with suppress(OSError, ValueError, IndexError):
        fields = _LOAD_FILE.read_text().split()  # "0.71 0.80 0.62 3/416 22108"
        running = int(fields[3].partition("/")[0]) - 1  # without this process
        return max(0, min(round(float(fields[0])), running))
    return 0  # not on Linux
