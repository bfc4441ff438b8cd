"""An encoder made ready to serve on a processor: one compiled call over packed weights.

Legend: B batch, T tokens of the longest text, N tokens of all texts, D hidden size, H heads,
C classes.

The same numbers as `model.encoder`, without dropout, and six differences in how they are come
by. The classifier reads the first token alone, so the last layer computes no other's output.
Padding is seen by attention alone; all else computes the N tokens that are there. Queries,
keys and values are one product. The weights lie in memory as oneDNN's kernels read them, so that
they are not put in order again for every pass, and the activation is part of the product before
it. A pass is one call that leaves Python alone: a hundred separate operations would each ask
for the interpreter's lock, which the thread that talks to clients holds most of the time. And
oneDNN, which makes and keeps code for each size that it meets, meets few: larger numbers of tokens
are rounded up, and the products of attention are left to kernels that keep nothing.
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
from model.quantized import activate, project, quantize_weight

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
# Up to here attention is quickest as products of float32, from here on as the fused kernel.
_SHORT = 64
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
        in_int8: whether to compute the projections, which are of float32 then, in bytes.
    """

    def __init__(self, network: EncoderClassifier, *, in_int8: bool = False) -> None:
        layers = [layer for layer in network.layers if isinstance(layer, EncoderLayer)]
        embeddings = network.embeddings
        places = embeddings.positions.weight + embeddings.types.weight[0]  # [T, D]
        norm = embeddings.norm
        self._num_heads = network.num_heads
        self._eps = norm.eps
        self._activation, self._form = _ACTIVATIONS[layers[0].activation]
        self._run = _compiled()
        self._prepare = quantize_weight if in_int8 else _pack
        with torch.no_grad():
            self._embeddings = _plain(embeddings.tokens.weight, places, norm.weight, norm.bias)
            self._projections: list[Tensor] = []
            self._terms: list[Tensor] = []
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
        size, length = batch.input_ids.shape
        logits, weights = self._run(
            batch.input_ids,
            *_padding(batch),
            self._embeddings,
            self._projections,
            self._terms,
            self._norms,
            self._head,
            self._num_heads,
            self._eps,
            self._activation,
            self._form,
            need_weights or length <= _SHORT,
            need_weights,
        )
        return ClassifierOutput(logits[:size], tuple(weights))

    def _add(self, layer: EncoderLayer) -> None:
        attention = layer.attention
        three = (attention.query, attention.key, attention.value)
        joined = (
            torch.cat([part.weight for part in three]),  # [3 D, D]
            torch.cat([part.bias for part in three]),
        )
        others = (attention.output, layer.intermediate, layer.output)
        for weight, bias in (joined, *((part.weight, part.bias) for part in others)):
            projection, terms = self._prepare(weight.detach().contiguous(), bias.detach())
            self._projections.append(projection)
            self._terms.append(terms)
        self._norms += _norms(layer.attention_norm, layer.output_norm)


def _padding(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the scores of each key get added, and where the tokens lie.

    Returns:
        float32 [B, 1, 1, T], 0 or minus infinity, empty if nothing is padded; int64 [N], the
        places of the tokens in [B * T]; int64 [B * T], which of these each place reads, where a
        place of padding reads any, since its key is hidden; empty if nothing is padded; int64
        [B], which of them begin a text. N and B are filled up with tokens whose results nobody
        reads.
    """
    padding = batch.key_padding_mask
    if padding is None:
        size, length = batch.input_ids.shape
        return (
            _NO_SCORES,
            _fill(torch.arange(size * length)),
            _NOWHERE,
            _fill(torch.arange(0, size * length, length)),
        )
    hidden = torch.zeros(padding.shape).masked_fill_(padding, -math.inf)  # [B, T]
    real = ~padding.flatten()
    places = (real.cumsum(0) - 1).clamp_(min=0)
    firsts = places.view(padding.shape)[:, 0]
    return hidden[:, None, None], _fill(real.nonzero().flatten()), places, _fill(firsts)


def _fill(places: Tensor) -> Tensor:
    """Repeats the first place so that products have few sizes.

    Not in small batches, where each would be felt: those of a single sentence.
    """
    count = len(places)
    step = 1 if count <= 32 else 8 if count <= 128 else 16
    extra = -count % step
    return torch.cat([places, places[:1].expand(extra)]) if extra else places


def _pack(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed, bias.clone()


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


def _attend(
    heads: Tensor, mask: Tensor | None, in_products: bool, only_first: bool
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention (Vaswani et al. 2017).

    Args:
        heads: queries, keys and values, [3, B, H, T, D / H].
        mask: added to the scores of each key, float32 [B, 1, 1, T].
        in_products: by two products of float32, which leave the weights; else by the fused
            kernel.
        only_first: for the first query alone.

    Returns:
        Context [B, H, Q, D / H] of Q queries; weights, float32 [B, H, Q, T], or an empty tensor.
    """
    _, batch_size, num_heads, length, head_dim = heads.shape
    count = 1 if only_first else length
    if not in_products:
        mask = mask.to(heads.dtype) if mask is not None else None
        fused = functional.scaled_dot_product_attention(
            heads[0, :, :, :count], heads[1], heads[2], mask
        )
        return fused, torch.empty(0)
    three = torch.empty(heads.shape).copy_(heads)
    queries, keys, values = three.view(3, -1, length, head_dim).unbind(0)  # [B * H, T, D / H]
    scores = torch.baddbmm(
        torch.zeros([1, 1, 1]),
        queries[:, :count],
        keys.transpose(1, 2),
        beta=0.0,
        alpha=1.0 / math.sqrt(head_dim),
    )
    scores = scores.view(batch_size, num_heads, count, length)
    if mask is not None:
        scores.add_(mask)
    weights = scores.softmax(dim=-1)
    context = torch.bmm(weights.view(-1, count, length), values)
    return context.view(batch_size, num_heads, count, head_dim), weights


def _project(states: Tensor, weight: Tensor, terms: Tensor, activation: str, form: str) -> Tensor:
    if terms.dim() > 1:
        return activate(project(states, weight, terms), activation, form)
    out: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, terms, activation, [], form)
    return out


def _forward(
    input_ids: Tensor,
    mask: Tensor,
    tokens: Tensor,
    places: Tensor,
    firsts: Tensor,
    embeddings: list[Tensor],
    projections: list[Tensor],
    terms: list[Tensor],
    norms: list[Tensor],
    head: list[Tensor],
    num_heads: int,
    eps: float,
    activation: str,
    form: str,
    in_products: bool,
    need_weights: bool,
) -> tuple[Tensor, list[Tensor]]:
    batch_size, length = input_ids.shape
    size = embeddings[0].shape[1]
    kind = terms[0].dtype
    is_padded = len(places) > 0
    summed = functional.embedding(input_ids, embeddings[0]) + embeddings[1][:length]  # [B, T, D]
    hidden = summed.view(-1, size).index_select(0, tokens)  # [N, D]
    # The residual stream is float32, as in model.encoder.
    hidden = functional.layer_norm(hidden, [size], embeddings[2], embeddings[3], eps)
    all_weights: list[Tensor] = []
    num_layers = len(projections) // 4
    for layer in range(num_layers):
        at = 4 * layer
        is_last = layer == num_layers - 1
        joined = _project(hidden.to(kind), projections[at], terms[at], "none", "")  # [N, 3 D]
        joined = joined.index_select(0, places) if is_padded else joined[: batch_size * length]
        heads = joined.view(batch_size, length, 3, num_heads, -1)
        context, weights = _attend(
            heads.permute(2, 0, 3, 1, 4),
            mask if is_padded else None,
            in_products,
            is_last and not need_weights,
        )
        if need_weights:
            all_weights.append(weights)
        if is_last:
            hidden = hidden.index_select(0, firsts)  # [B, D], and so is all that follows
            context = context[:, :, :1]
        context = context.transpose(1, 2).reshape(-1, size).to(kind)  # [B * T, D]
        if is_padded and not is_last:
            context = context.index_select(0, tokens)  # [N, D]
        missing = len(hidden) - len(context)
        if missing > 0:
            context = torch.cat([context, context[:1].expand(missing, size)])
        attended = _project(context, projections[at + 1], terms[at + 1], "none", "")
        hidden = functional.layer_norm(hidden + attended, [size], norms[at], norms[at + 1], eps)
        inner = _project(hidden.to(kind), projections[at + 2], terms[at + 2], activation, form)
        outer = _project(inner, projections[at + 3], terms[at + 3], "none", "")
        hidden = functional.layer_norm(hidden + outer, [size], norms[at + 2], norms[at + 3], eps)
    pooled = torch.tanh(functional.linear(hidden, head[0], head[1]))
    return functional.linear(pooled, head[2], head[3]), all_weights
