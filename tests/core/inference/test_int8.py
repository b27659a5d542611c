"""int8 weights: outputs near those of the float weights, and no warnings."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

from core.errors import ConfigError
from core.inference import packed_linear
from core.inference.incremental_model import IncrementalModel
from core.inference.packed_linear import Int8Linear
from core.model.config import TransformerConfig
from core.model.sequence_to_sequence import SequenceToSequence


@pytest.mark.parametrize("shape", [(1, 64), (40, 64), (5, 8, 64)], ids=str)
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no_bias"])
def test_outputs_are_near_those_of_float_weights(shape: tuple[int, ...], has_bias: bool) -> None:
    torch.manual_seed(1)
    x, weight = torch.randn(shape), torch.randn(96, 64)
    bias = torch.randn(96) if has_bias else None
    layer = Int8Linear(weight, bias)
    exact = F.linear(x, weight, bias)
    # Weights and inputs have 255 levels: an error of about 1 percent over sums of 64.
    assert (layer(x) - exact).abs().max() < 0.03 * exact.abs().max()
    assert torch.equal(layer(x, relu=True), layer(x).relu())
    residual = torch.randn(*shape[:-1], 96)
    torch.testing.assert_close(layer.added_to(residual, x), residual + layer(x))


def test_an_int8_model_is_near_the_float_model() -> None:
    model = small_model()
    src = torch.randint(4, 30, (6, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rounded = first_logits(IncrementalModel(model, int8=True), src)
    exact = first_logits(IncrementalModel(model), src)
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_a_model_of_another_type_has_no_int8(dtype: torch.dtype) -> None:
    """PyTorch said in the first step that it expected Float and found BFloat16."""
    kind = str(dtype).removeprefix("torch.")
    with pytest.raises(ConfigError, match=f"int8 is for a model in float32, not {kind}"):
        IncrementalModel(small_model().to(dtype), int8=True)


def test_int8_needs_no_private_function_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, sums are kept small enough for every processor, at the cost of one bit."""
    monkeypatch.delattr(torch.cpu, "_is_vnni_supported", raising=False)
    assert not packed_linear.has_vnni()
    x, weight = torch.randn(3, 64), torch.randn(96, 64)
    exact = F.linear(x, weight)
    assert (Int8Linear(weight, None)(x) - exact).abs().max() < 0.05 * exact.abs().max()


def test_int8_and_float_calls_at_the_same_time_do_not_disturb_one_another() -> None:
    """The kind of linear layer was an attribute of the shared model, set at the start of a call.

    A float search then ran with 8-bit weights if an int8 search began in another thread.
    """
    model, src = small_model(), torch.randint(4, 30, (6, 3))
    models = {int8: IncrementalModel(model, int8=int8) for int8 in (False, True)}
    expected = {int8: first_logits(models[int8], src) for int8 in models}

    def call(number: int) -> bool:
        int8 = number % 2 == 0
        return torch.equal(first_logits(models[int8], src), expected[int8])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(200)))


def small_model() -> SequenceToSequence:
    torch.manual_seed(3)
    config = TransformerConfig(d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1)
    return SequenceToSequence(30, 30, config, share_embeddings=True).eval()


def first_logits(model: IncrementalModel, src: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return model.step(torch.full((src.shape[1],), 2), model.start(src)).clone()


def test_int8_is_for_a_cpu() -> None:
    config = TransformerConfig(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1)
    model = SequenceToSequence(9, 9, config, share_embeddings=True).to("meta")
    message = r"generation\.int8 is for a CPU, and the model is on meta"
    with pytest.raises(ConfigError, match=message):
        IncrementalModel(model, int8=True)
