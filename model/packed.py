"""An encoder made ready to serve on a processor: one compiled call over packed weights.

Legend: B batch, T tokens of the longest text, N tokens of all texts, D hidden size, H heads,
C classes.

The same numbers as `model.encoder`, without dropout, and four differences in how they are come
by. Padding is seen by attention alone; all else computes the N tokens that are there. Queries,
keys and values are one product. The weights lie in memory as oneDNN's kernels read them, so that
they are not put in order again for every pass, and the activation is part of the product before
it. And a pass is one call that leaves Python alone: a hundred separate operations would each ask
for the interpreter's lock, which the thread that talks to clients holds most of the time.
"""

import math
import platform
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.batch import Batch
from model.classifier import ClassifierOutput
from model.encoder import EncoderClassifier, EncoderLayer

# oneDNN's names: of the function, and of its form.
_ACTIVATIONS = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
}
_Run = Callable[..., tuple[Tensor, list[Tensor]]]
_NO_SCORES = torch.empty(0)
_NOWHERE = torch.empty(0, dtype=torch.int64)
_TOKENS_STEP = 16
_PROCESSORS = frozenset({"x86_64", "amd64"})


def can_pack(device: torch.device) -> bool:
    """Whether this processor and this build of torch have the kernels that packing is for.

    Args:
        device: where the network runs.
    """
    return (
        device.type == "cpu"
        and platform.machine().lower() in _PROCESSORS
        and bool(torch._C._has_mkldnn)
    )


class PackedEncoder:
    """The passes of an encoder whose weights no longer change.

    Args:
        network: on the CPU, its projections in the type to compute in. Its parameters are not
            needed any more afterwards.
    """

    def __init__(self, network: EncoderClassifier) -> None:
        layers = [layer for layer in network.layers if isinstance(layer, EncoderLayer)]
        embeddings = network.embeddings
        places = embeddings.positions.weight + embeddings.types.weight[0]  # [T, D]
        norm = embeddings.norm
        self._num_heads = network.num_heads
        self._eps = norm.eps
        self._activation, self._form = _ACTIVATIONS[layers[0].activation]
        self._run = _compiled()
        with torch.no_grad():
            self._embeddings = _plain(embeddings.tokens.weight, places, norm.weight, norm.bias)
            self._projections: list[Tensor] = []
            self._biases: list[Tensor] = []
            self._norms: list[Tensor] = []
            for layer in layers:
                self._add(layer)
            self._head = _plain(
                network.pooler.weight,
                network.pooler.bias,
                network.classifier.weight,
                network.classifier.bias,
            )

    def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        """Classifies a batch, as `EncoderClassifier.forward` does."""
        logits, weights = self._run(
            batch.input_ids,
            *_padding(batch),
            self._embeddings,
            self._projections,
            self._biases,
            self._norms,
            self._head,
            self._num_heads,
            self._eps,
            self._activation,
            self._form,
            need_weights,
        )
        return ClassifierOutput(logits, tuple(weights))

    def _add(self, layer: EncoderLayer) -> None:
        attention = layer.attention
        three = (attention.query, attention.key, attention.value)
        joined = torch.cat([part.weight for part in three])  # [3 D, D]
        for weight in (
            joined,
            attention.output.weight,
            layer.intermediate.weight,
            layer.output.weight,
        ):
            self._projections.append(_pack(weight.detach().contiguous()))
        self._biases += _plain(
            torch.cat([part.bias for part in three]),
            attention.output.bias,
            layer.intermediate.bias,
            layer.output.bias,
        )
        self._norms += _norms(layer.attention_norm, layer.output_norm)


def _padding(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """What the scores of each key get added, where the tokens are, and what each place reads.

    Returns:
        float32 [B, 1, 1, T], 0 or minus infinity; int64 [N], filled up with
        a token whose result nobody reads; int64 [B * T], where a place of padding reads any
        token, since its key is hidden. All are empty if nothing is padded.
    """
    padding = batch.key_padding_mask
    if padding is None:
        return _NO_SCORES, _NOWHERE, _NOWHERE
    hidden = torch.zeros(padding.shape).masked_fill_(padding, -math.inf)  # [B, T]
    real = ~padding.flatten()
    tokens = real.nonzero().flatten()
    # oneDNN makes and keeps code for each size that it meets: let there be few.
    extra = -len(tokens) % _TOKENS_STEP
    tokens = torch.cat([tokens, tokens.new_zeros(extra)])
    return hidden[:, None, None], tokens, (real.cumsum(0) - 1).clamp_(min=0)


def _pack(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed


def _plain(*parameters: Tensor) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in parameters]


def _norms(*norms: nn.LayerNorm) -> list[Tensor]:
    return [tensor for norm in norms for tensor in _plain(norm.weight, norm.bias)]


@cache
def _compiled() -> _Run:
    """The pass as TorchScript; of what torch has, it alone needs no compiler of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        run: _Run = torch.jit.script(_forward)
    return run


def _forward(
    input_ids: Tensor,
    mask: Tensor,
    tokens: Tensor,
    places: Tensor,
    embeddings: list[Tensor],
    projections: list[Tensor],
    biases: list[Tensor],
    norms: list[Tensor],
    head: list[Tensor],
    num_heads: int,
    eps: float,
    activation: str,
    form: str,
    need_weights: bool,
) -> tuple[Tensor, list[Tensor]]:
    batch_size, length = input_ids.shape
    size = embeddings[0].shape[1]
    kind = biases[0].dtype
    is_padded = len(tokens) > 0
    summed = functional.embedding(input_ids, embeddings[0]) + embeddings[1][:length]  # [B, T, D]
    hidden = summed.view(-1, size)
    if is_padded:
        hidden = hidden.index_select(0, tokens)  # [N, D]
    # The residual stream is float32, as in model.encoder.
    hidden = functional.layer_norm(hidden, [size], embeddings[2], embeddings[3], eps)
    all_weights: list[Tensor] = []
    for layer in range(len(projections) // 4):
        at = 4 * layer
        joined = torch.ops.mkldnn._linear_pointwise(
            hidden.to(kind), projections[at], biases[at], "none", [], ""
        )  # [N, 3 D]
        if is_padded:
            joined = joined.index_select(0, places)  # [B * T, 3 D]
        heads = joined.view(batch_size, length, 3, num_heads, size // num_heads)
        queries, keys, values = (
            heads.permute(2, 0, 3, 1, 4).reshape(3, -1, length, size // num_heads).unbind(0)
        )  # [B * H, T, D / H]
        scores = torch.bmm(queries, keys.transpose(1, 2)).float()
        scores = scores.view(batch_size, num_heads, length, length)  # [B, H, T, T]
        scores.mul_(1.0 / math.sqrt(size // num_heads))
        if is_padded:
            scores.add_(mask)
        weights = scores.softmax(dim=-1)
        if need_weights:
            all_weights.append(weights)
        context = torch.bmm(weights.to(kind).view(-1, length, length), values)
        context = context.view(batch_size, num_heads, length, -1)
        context = context.transpose(1, 2).reshape(-1, size)  # [B * T, D]
        if is_padded:
            context = context.index_select(0, tokens)  # [N, D]
        attended = torch.ops.mkldnn._linear_pointwise(
            context, projections[at + 1], biases[at + 1], "none", [], ""
        )
        hidden = functional.layer_norm(hidden + attended, [size], norms[at], norms[at + 1], eps)
        inner = torch.ops.mkldnn._linear_pointwise(
            hidden.to(kind), projections[at + 2], biases[at + 2], activation, [], form
        )
        outer = torch.ops.mkldnn._linear_pointwise(
            inner, projections[at + 3], biases[at + 3], "none", [], ""
        )
        hidden = functional.layer_norm(hidden + outer, [size], norms[at + 2], norms[at + 3], eps)
    if is_padded:
        firsts = hidden.index_select(0, places.view(batch_size, length)[:, 0])
    else:
        firsts = hidden.view(batch_size, length, size)[:, 0]  # [B, D]
    pooled = torch.tanh(functional.linear(firsts, head[0], head[1]))
    return functional.linear(pooled, head[2], head[3]), all_weights
