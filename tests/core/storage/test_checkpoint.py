"""Checkpoint files: what goes in comes out; what is not whole or not ours is refused by name."""

import json
import math
import pickle
import resource
import struct
import time
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

from core.errors import CheckpointError, UserError
from core.model.config import TransformerConfig
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import (
    average_weights,
    load_model,
    load_optional,
    load_tensors,
    load_weights,
    model_tensors,
    read_digests,
    save_tensors,
    save_weights,
)
from core.storage.files import remove_partial_files
from tests.core.small_models import sizes
from tests.forked import forked

ROOT = Path(__file__).resolve().parents[3]


def some_tensors() -> dict[str, Tensor]:
    torch.manual_seed(1)
    return {
        "weight": torch.randn(5, 3),
        "half": torch.randn(7).half(),
        "brain": torch.randn(7).bfloat16(),
        "double": torch.randn(2, 3, 4).double(),
        "counts": torch.arange(4),
        "bytes": torch.arange(11).byte(),
        "flags": torch.tensor([True, False]),
        "scalar": torch.tensor(3.5),
        "nothing": torch.zeros(0, 3),
        "transposed": torch.randn(4, 6).t(),
    }


def small_model(words: int = 10) -> SequenceToSequence:
    """One table for both languages and the output layer."""
    return SequenceToSequence(words, words, sizes(), share_embeddings=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


# There and back


def test_tensors_come_back_bit_by_bit(path: Path) -> None:
    saved = some_tensors()
    save_tensors(path, saved)
    loaded = load_tensors(path)
    assert loaded.keys() == saved.keys()
    for name, tensor in saved.items():
        assert loaded[name].dtype == tensor.dtype, name
        assert torch.equal(loaded[name], tensor), name


def test_equal_tensors_give_equal_files(path: Path) -> None:
    """The names in the header came in any order: equal runs differed in their bytes."""
    tensors, digests = some_tensors(), {"vocabulary.txt": "1" * 64, "classes.txt": "2" * 64}
    save_tensors(path, tensors, digests=digests)
    first = path.read_bytes()
    for _ in range(5):
        backwards = dict(reversed(tensors.items()))
        save_tensors(path, backwards, digests=dict(reversed(digests.items())))
        assert path.read_bytes() == first
    assert read_digests(path) == digests


@pytest.mark.parametrize("files", ["[", "[]", "3", "[" * 100_000])
def test_digests_that_cannot_be_read_are_refused(path: Path, files: str) -> None:
    save_file({"a": torch.ones(3)}, path, metadata=header(files=files))
    with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged"):
        read_digests(path)


def test_a_file_is_as_readable_as_any_other(path: Path) -> None:
    """Regression: weights were left with the mode 600, so a shipped model was its owner's alone."""
    save_tensors(path, some_tensors())
    ordinary = path.with_name("ordinary")
    ordinary.touch()
    assert path.stat().st_mode == ordinary.stat().st_mode


def test_weights_come_back_into_another_model(path: Path) -> None:
    torch.manual_seed(1)
    model, other = small_model(), small_model()
    save_weights(path, model)
    load_weights(path, other)
    ids = torch.randint(4, 10, (5, 3))
    assert torch.equal(other.eval()(ids, ids), model.eval()(ids, ids))


def test_tied_weights_are_saved_once_and_stay_tied(path: Path) -> None:
    model = small_model()
    save_weights(path, model)
    tables = [name for name, tensor in load_tensors(path).items() if tensor.shape == (10, 8)]
    assert tables == ["src_embedding.embedding.weight"]
    load_weights(path, model)
    assert model.generator.weight is model.src_embedding.embedding.weight


def test_buffers_are_saved_unless_they_are_constants(path: Path) -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))
    model[1].register_buffer("constant", torch.ones(2), persistent=False)
    model[0](torch.randn(5, 3))
    save_weights(path, model)
    assert load_tensors(path).keys() == model.state_dict().keys()
    other = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))
    load_weights(path, other)
    assert torch.equal(other[0].running_mean, model[0].running_mean)


def test_half_precision_is_half_the_file_and_converted_back(path: Path) -> None:
    model = small_model(words=1000)
    save_weights(path, model)
    full = path.stat().st_size
    save_weights(path, model, dtype=torch.float16)
    assert path.stat().st_size < 0.55 * full
    other = small_model(words=1000)
    load_weights(path, other)
    for name, tensor in model_tensors(other).items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, model_tensors(model)[name].half().float())


def test_eight_bits_are_a_quarter_of_the_file_and_as_near_as_a_row_allows(path: Path) -> None:
    model, other = nn.Linear(300, 200), nn.Linear(300, 200)
    with torch.no_grad():
        model.weight[0] *= 1000.0  # the other rows are as exact as without it
        model.weight[1] = 0.0
    save_weights(path, model, dtype=torch.int8)
    assert path.stat().st_size < 300 * 200 + 4 * 400 + 1000
    load_weights(path, other)
    step = model.weight.abs().amax(dim=1, keepdim=True) / 127
    assert ((model.weight - other.weight).abs() <= 0.501 * step).all()
    assert torch.equal(model.bias, other.bias)
    model.load_state_dict(other.state_dict())
    save_weights(path, model, dtype=torch.int8)
    load_weights(path, other)
    torch.testing.assert_close(model.weight, other.weight)
    assert torch.equal(load_model(path, lambda: nn.Linear(300, 200)).weight, other.weight)


@pytest.mark.parametrize(
    "scales", [torch.ones(2), torch.ones(3, 1), torch.ones(2, 3)], ids=["flat", "long", "wide"]
)
def test_scales_that_do_not_fit_are_refused(path: Path, scales: Tensor) -> None:
    rows = torch.ones(2, 3, dtype=torch.int8)
    save_tensors(path, {"weight": rows, "weight.scales": scales})
    with pytest.raises(CheckpointError, match=r"damaged: 'weight\.scales' does not fit"):
        load_tensors(path)
    save_tensors(path, {"weight.scales": torch.ones(2, 1)})
    with pytest.raises(CheckpointError, match=r"damaged: 'weight\.scales' does not fit"):
        load_tensors(path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_value_too_large_for_half_precision_keeps_its_type(
    path: Path, dtype: torch.dtype
) -> None:
    """A weight of 70,000 was written as an infinity, and the finished model could not be loaded."""
    model = nn.Linear(2, 2)
    nn.init.constant_(model.weight, 70_000.0)
    save_weights(path, model, dtype=dtype)
    saved = load_tensors(path)
    assert saved["bias"].dtype == dtype
    assert saved["weight"].dtype == (torch.float32 if dtype == torch.float16 else dtype)
    load_weights(path, other := nn.Linear(2, 2))
    assert other.weight.isfinite().all()


def test_saving_changes_nothing_in_the_model(path: Path) -> None:
    model = small_model()
    before = {name: tensor.clone() for name, tensor in model_tensors(model).items()}
    save_weights(path, model, dtype=torch.float16)
    for name, tensor in model_tensors(model).items():
        assert torch.equal(tensor, before[name])
    assert all(parameter.requires_grad for parameter in model.parameters())


# Atomic


def test_a_failed_save_leaves_what_was_there(path: Path) -> None:
    """The disk is full: here, no file may grow beyond a thousand bytes."""
    save_tensors(path, {"old": torch.ones(3)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(UserError, match=r"model.safetensors: cannot write"):
            save_tensors(path, {"new": torch.ones(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load_tensors(path).keys() == {"old"}
    assert list(path.parent.iterdir()) == [path]


def test_a_save_that_is_interrupted_leaves_what_was_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(tensors: object, temporary: Path, metadata: object) -> None:
        temporary.write_bytes(b"half of it")
        raise KeyboardInterrupt

    save_tensors(path, {"old": torch.ones(3)})
    monkeypatch.setattr("core.storage.checkpoint.save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_tensors(path, {"new": torch.ones(3)})
    assert load_tensors(path).keys() == {"old"}
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_save_leaves_can_be_told_and_removed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file that there is in the middle of a save: ours, and one that safetensors makes."""
    save_tensors(path, {"old": torch.ones(3)})
    monkeypatch.setattr("os.fsync", lambda handle: time.sleep(0.2))  # long enough to be seen
    started: set[str] = set()
    with forked(lambda: save_tensors(path, {"new": torch.ones(3_000_000)})) as process:
        while process.poll() is None:
            started |= {other.name for other in path.parent.iterdir()} - {path.name}
    assert process.returncode == 0
    assert list(path.parent.iterdir()) == [path]
    assert started
    for name in started:
        (path.parent / name).touch()
    remove_partial_files(path.parent)
    assert list(path.parent.iterdir()) == [path]


# Damage


def test_no_file(path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model.safetensors: there is no such file"):
        load_tensors(path)
    with pytest.raises(CheckpointError, match="there is no such file"):
        load_tensors(path.parent)


def test_a_file_cut_off_anywhere_is_refused(path: Path) -> None:
    save_tensors(path, {"a": torch.randn(5, 3), "b": torch.arange(4)})
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"model.safetensors: damaged"):
            load_tensors(path)


def test_no_flipped_bit_goes_unseen(path: Path) -> None:
    """In the header, or in the numbers."""
    tensors = {"a": torch.randn(5, 3), "b": torch.arange(4), "c": torch.tensor([1.0])}
    save_tensors(path, tensors, digests={"classes.txt": "1" * 64})
    whole = path.read_bytes()
    for position in range(len(whole)):
        flipped = whole[position] ^ 0x01
        path.write_bytes(whole[:position] + bytes([flipped]) + whole[position + 1 :])
        with pytest.raises(CheckpointError, match=r"model.safetensors: "):
            load_tensors(path)


# Foreign files


def header(**changes: str) -> dict[str, str]:
    return {"format": "transformer-suite", "version": "1", "sha256": "0" * 64, **changes}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "not written by Transformer Suite"),
        ({"format": "pt"}, "not written by Transformer Suite"),
        (header(version="2"), "format version 2, this program reads 1"),
        (header(), "its content does not match its checksum"),
        ({"format": "transformer-suite", "version": "1"}, "does not match its checksum"),
    ],
)
def test_files_of_others_are_refused(
    path: Path, metadata: dict[str, str] | None, message: str
) -> None:
    save_file({"a": torch.ones(3)}, path, metadata=metadata)
    with pytest.raises(CheckpointError, match=f"model.safetensors: .*{message}"):
        load_tensors(path)


class Trap:
    """Something whose unpickling leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("by_torch", [True, False])
def test_a_pickle_is_refused_and_not_run(path: Path, by_torch: bool) -> None:
    trace = path.parent / "trace"
    if by_torch:
        torch.save({"weight": Trap(trace)}, path)
    else:
        path.write_bytes(pickle.dumps({"weight": Trap(trace)}))
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
        load_tensors(path)
    assert not trace.exists()


# Another model's weights


def test_weights_of_other_sizes_are_refused_by_name(path: Path) -> None:
    save_weights(path, small_model(words=10))
    model = small_model(words=12)
    before = [parameter.clone() for parameter in model.parameters()]
    message = r"src_embedding.embedding.weight has shape \[10, 8\], not \[12, 8\]"
    with pytest.raises(CheckpointError, match=message):
        load_weights(path, model)
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


def test_missing_and_unknown_weights_are_named(path: Path) -> None:
    tensors = model_tensors(small_model())
    tensors["generator.bios"] = tensors.pop("generator.bias")
    save_tensors(path, tensors)
    message = r"missing \['generator.bias'\], unknown \['generator.bios'\]"
    with pytest.raises(CheckpointError, match=message):
        load_weights(path, small_model())


# Averages


def test_the_average_by_hand(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    for i, one in enumerate(paths):
        save_tensors(one, {"a": torch.tensor([1.0, 10.0]) * (i + 1), "b": torch.tensor(i)})
    average = average_weights(paths)
    assert torch.equal(average["a"], torch.tensor([2.0, 20.0]))
    assert average["a"].dtype == torch.float32
    assert average["b"].item() == 1.0


def test_the_average_of_many_is_not_rounded_on_the_way(tmp_path: Path) -> None:
    """2^24 + 1 is no float32: a float32 sum would lose every one of the small weights."""
    values = [2.0**24, 1.0, 1.0, 2.0]
    paths = [tmp_path / f"{i}.safetensors" for i in range(4)]
    for one, value in zip(paths, values, strict=True):
        save_tensors(one, {"a": torch.tensor(value)})
    assert average_weights(paths)["a"].item() == 2.0**22 + 1.0


@pytest.mark.parametrize("other", [{"a": torch.ones(2)}, {"b": torch.ones(3)}, {}])
def test_weights_of_different_models_have_no_average(
    tmp_path: Path, other: dict[str, Tensor]
) -> None:
    """Other shapes used to be broadcast, or to fail without a name; other names, to be kept."""
    save_tensors(tmp_path / "one", {"a": torch.ones(3)})
    save_tensors(tmp_path / "two", other)
    with pytest.raises(CheckpointError, match=r"two: not the weights of the same model as .*one"):
        average_weights([tmp_path / "one", tmp_path / "two"])


# Crafted files


@cache
def one_model() -> SequenceToSequence:
    """The same for all examples of a law: each is refused, and changes no model."""
    return small_model()


def crafted(path: Path, header: object) -> Path:
    """Writes a safetensors file with a header alone."""
    content = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content)
    return path


@given(
    shape=st.lists(st.integers(0, 2**64 - 1) | st.just(0), max_size=4),
    dtype=st.sampled_from(["F32", "F4", "C64", "F8_E4M3", "I64", "U16", "X"]),
    name=st.text(max_size=200),
)
def test_no_header_gives_anything_but_an_error_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], dtype: str, name: str
) -> None:
    """A tensor of shape [0, 2^63] was a TypeError of torch, and a name came through unescaped."""
    path = tmp_path_factory.getbasetemp() / "crafted.safetensors"
    crafted(path, {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}})
    with pytest.raises(CheckpointError) as caught:
        load_weights(path, one_model())
    assert len(str(caught.value)) < len(str(path)) + 400
    assert str(caught.value).isprintable()


@given(
    value=st.sampled_from([math.nan, math.inf, -math.inf]),
    weight=st.integers(0, 20),
    element=st.integers(0, 10**6),
)
def test_weights_that_are_not_numbers_are_refused(
    tmp_path_factory: pytest.TempPathFactory, value: float, weight: int, element: int
) -> None:
    """Classes had the probability NaN, and searches ended with an IndexError."""
    path = tmp_path_factory.getbasetemp() / "nan.safetensors"
    tensors = {name: tensor.clone() for name, tensor in model_tensors(one_model()).items()}
    name = sorted(tensors)[weight % len(tensors)]
    tensors[name].view(-1)[element % tensors[name].numel()] = value
    save_tensors(path, tensors)
    with pytest.raises(CheckpointError, match=f"{name} has values that are NaN or infinite"):
        load_weights(path, one_model())


def test_sizes_are_compared_before_a_model_is_built(path: Path) -> None:
    """A configuration of 1 KB asked for 20 GB before the weights were found to be others."""
    save_weights(path, small_model())

    def huge() -> SequenceToSequence:
        config = TransformerConfig(d_model=1 << 17, dim_feedforward=1 << 17, max_len=1 << 15)
        return SequenceToSequence(10**9, 10**9, config, share_embeddings=True)

    with pytest.raises(CheckpointError, match="not the weights of this model"):
        load_model(path, huge)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_beside_a_model_that_are_not_finite_are_refused(
    value: float, tmp_path: Path
) -> None:
    """A familiarity with NaN was 0 for every text, and a language detector with NaN silent."""
    path = tmp_path / "numbers.safetensors"
    for tensor in (torch.tensor([1.0, value]), torch.tensor([1.0, value]).half()):
        save_tensors(path, {"a": torch.tensor([1.0, math.inf]), "b": tensor})
        with pytest.raises(CheckpointError, match=r"safetensors: b has values that are NaN or inf"):
            load_optional(path, {"a": [2], "b": [2]}, may_be_infinite=["a"])
    save_tensors(path, {"a": torch.tensor([1.0, value]), "b": torch.zeros(1)})
    shapes = {"a": [2], "b": [1]}
    if math.isnan(value):
        with pytest.raises(CheckpointError, match=r"safetensors: a has values that are NaN or inf"):
            load_optional(path, shapes, may_be_infinite=["a"])
    else:
        assert load_optional(path, shapes, may_be_infinite=["a"]) is not None
    assert load_optional(tmp_path / "none", shapes) is None
