"""Cross-entropy with label smoothing (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).

With smoothing e the target distribution of a token y over V words is (1 - e) on y plus e / V on
every word, and the loss of one token is

    -(1 - e) log p(y) - (e / V) * sum_v log p(v).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK_ROWS = 256  # whose logits stay in a CPU's cache
_CHUNK_LOGITS = 2**26  # a quarter of a gigabyte


def label_smoothed_cross_entropy(
    logits: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, pad_id: int | None = None
) -> Tensor:
    """Returns the summed loss of ``logits`` ``[..., V]`` and ``targets`` ``[...]``, in float32.

    Targets equal to ``pad_id`` are ignored.
    """
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(),
        targets.reshape(-1),
        label_smoothing=label_smoothing,
        ignore_index=-100 if pad_id is None else pad_id,
        reduction="sum",
    )


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """Returns the summed loss of ``F.linear(hidden, weight, bias)``, computed in chunks of rows.

    The logits over the vocabulary are the largest tensors of a training step, and exist for a few
    hundred positions at a time here, on a GPU for some thousands. Second derivatives are refused.

    Args:
        hidden: ``[N, D]``, one row for each target. weight: ``[V, D]``. bias: ``[V]``.
        targets: ``[N]``, without padding.
        label_smoothing: e above.

    Raises:
        ValueError: sizes that do not match; the message names them.
        IndexError: a target that is not in the vocabulary.
    """
    if hidden.shape != (len(targets), weight.shape[1]):
        raise ValueError(
            f"hidden must be [N, D] = {[len(targets), weight.shape[1]]}, not {list(hidden.shape)}"
        )
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing)


class _LinearCrossEntropy(torch.autograd.Function):
    """The loss, and its gradients by hidden states, weight and bias for the backward pass.

    With autograd in each chunk, a whole training step on a CPU would take 1.07 times as long; with
    logits that are computed again in the backward pass (``torch.utils.checkpoint``), 1.2 times.
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, label_smoothing):  # type: ignore[no-untyped-def]
        device, dtype = hidden.device.type, weight.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            x, w, b = (tensor.to(dtype) for tensor in (hidden, weight, bias))
            loss = torch.zeros((), device=hidden.device)
            hidden_grad = torch.empty_like(hidden)
            weight_grad, bias_grad = torch.zeros_like(weight), torch.zeros_like(bias)
            # On a CPU, every product would transpose the matrix again.
            by_columns = w.t().contiguous().t() if device == "cpu" else w
            size = _CHUNK_ROWS if device == "cpu" else max(1, _CHUNK_LOGITS // len(weight))
            for start in range(0, len(x), size):
                rows = slice(start, start + size)
                logits = F.linear(x[rows], by_columns, b).float()
                part, grad = _loss_and_gradient(logits, targets[rows], label_smoothing)
                loss += part
                bias_grad += grad.sum(dim=0)
                grad = grad.to(dtype)
                hidden_grad[rows] = grad @ w
                if dtype == weight.dtype:
                    weight_grad.addmm_(grad.t(), x[rows])
                else:
                    weight_grad += grad.t() @ x[rows]
        ctx.save_for_backward(hidden_grad, weight_grad, bias_grad)
        return loss

    @staticmethod
    def backward(ctx, upstream):  # type: ignore[no-untyped-def]
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("linear_cross_entropy has no second derivatives")
        gradients = (gradient * upstream for gradient in ctx.saved_tensors)
        return *gradients, None, None


def _loss_and_gradient(
    logits: Tensor, targets: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Returns the summed loss of ``logits`` ``[n, V]``, and its gradient in their place.

    The gradient is the probabilities minus the target distribution.
    """
    vocabulary_size = logits.shape[1]
    # This checks the targets, too; none is ignored.
    loss = (1.0 - label_smoothing) * F.nll_loss(
        logits, targets, reduction="sum", ignore_index=vocabulary_size
    )
    loss -= label_smoothing / vocabulary_size * logits.sum()
    largest = logits.amax(dim=1)
    grad = torch.softmax(logits, 1, out=logits)
    # The largest probability is exp(largest - normalizer), and never too small for its logarithm.
    loss += (largest - grad.amax(dim=1).log()).sum()
    grad -= label_smoothing / vocabulary_size
    grad[torch.arange(len(targets), device=targets.device), targets] -= 1.0 - label_smoothing
    return loss, grad
