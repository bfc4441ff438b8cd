"""Runs an encoder on a processor: one compiled call over packed weights.

Legend: B batch, T tokens of the longest text, N tokens of all texts, D hidden size, H heads,
C classes.

The numbers are those of `model.encoder` without dropout. They are computed in another way:

- The classifier reads the first token alone. So the last layer computes the output of that token
  only, and no key or value unless its weights are wanted.
- Attention sees padding; all else computes the N tokens that are there.
- Queries, keys and values are one product.
- The weights lie in memory as the kernels of oneDNN read them, and the activation is part of the
  product before it.
- A pass is one call that releases the interpreter's lock. A hundred separate operations would each
  ask for the lock, which the thread that talks to clients holds most of the time.
- oneDNN makes and keeps code for each size that it meets. So numbers of tokens are rounded up, and
  kernels that keep nothing compute the products of attention.
"""

import math
import platform

import torch
from torch import Tensor, nn

from model.architecture import Network
from model.attention import MultiHeadAttention
from model.backends.base import Runner
from model.backends.eager import CpuBackend, avoid_kernel_cache
from model.backends.packed_pass import compiled
from model.backends.quantized import quantize_weight
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
_NO_SCORES = torch.empty(0)
_NOWHERE = torch.empty(0, dtype=torch.int64)
# Up to here attention is quickest as products of float32, from here on as the fused kernel.
_SHORT = 64
_PROCESSORS = frozenset({"x86_64", "amd64"})


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether this processor and this build of torch have the kernels that packing is for.

    Args:
        device: where the network runs.
        dtype: what its projections compute in.
    """
    return (
        device.type == "cpu"
        and platform.machine().lower() in _PROCESSORS
        and bool(torch._C._has_mkldnn)
        # Processors without AVX-512 have none for bfloat16, and oneDNN refuses to pack it there.
        and (dtype != torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))
    )


class PackedBackend(CpuBackend):
    """A processor with the kernels of oneDNN, for an encoder."""

    def load(self, network: Network, *, pad_token_id: int, num_heads: int) -> Runner:
        """Packs the projections; embeddings are shared with the network.

        Raises:
            TypeError: the network is no encoder.
        """
        if not isinstance(network, EncoderClassifier):
            raise TypeError(f"only encoders are packed, got {type(network).__name__}")
        served = PackedEncoder(network, dtype=self.dtype)
        avoid_kernel_cache(network)
        return Runner(served, device=self.device, pad_token_id=pad_token_id, num_heads=num_heads)


class PackedEncoder:
    """Computes passes of an encoder whose weights no longer change.

    Args:
        network: on the CPU. Its embeddings and pooler are read where they are; the rest is copied.
        dtype: what the projections compute in, one that `can_pack` has kernels for.
    """

    def __init__(self, network: EncoderClassifier, *, dtype: torch.dtype) -> None:
        layers = [layer for layer in network.layers if isinstance(layer, EncoderLayer)]
        embeddings = network.embeddings
        places = embeddings.positions.weight + embeddings.types.weight[0]  # [T, D]
        norm = embeddings.norm
        self._num_heads = network.num_heads
        self._eps = norm.eps
        self._activation, self._form = _ACTIVATIONS[layers[0].activation]
        self._run = compiled()
        self._dtype = torch.float32 if dtype == torch.int8 else dtype
        self._prepare = quantize_weight if dtype == torch.int8 else _pack
        with torch.no_grad():
            self._embeddings = _plain(embeddings.tokens.weight, places, norm.weight, norm.bias)
            self._projections: list[Tensor] = []
            self._terms: list[Tensor] = []
            self._norms: list[Tensor] = []
            for layer in layers:
                self._add(layer, is_last=layer is layers[-1])
            self._first = _for_first(layers[-1].attention, self._dtype)
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
            self._first,
            self._head,
            self._num_heads,
            self._eps,
            self._activation,
            self._form,
            need_weights or length <= _SHORT,
            need_weights,
        )
        return ClassifierOutput(logits[:size], tuple(weights))

    def _add(self, layer: EncoderLayer, *, is_last: bool) -> None:
        attention = layer.attention
        parts = [attention.query, attention.key, *(() if is_last else (attention.value,))]
        joined = (
            torch.cat([part.weight for part in parts]),  # [3 D, D]
            torch.cat([part.bias for part in parts]),
        )
        others = (attention.output, layer.intermediate, layer.output)
        for weight, bias in (joined, *((part.weight, part.bias) for part in others)):
            weight, bias = weight.detach().to(self._dtype), bias.detach().to(self._dtype)
            projection, terms = self._prepare(weight.contiguous(), bias)
            self._projections.append(projection)
            self._terms.append(terms)
        self._norms += _norms(layer.attention_norm, layer.output_norm)


def _for_first(attention: MultiHeadAttention, dtype: torch.dtype) -> list[Tensor]:
    """What attention of the first token alone reads, in float32 with the digits of `dtype`.

    Returns:
        Of the queries, divided by the root of D / H, weights [D, D] and biases [D]; of the keys
        weights [H, D / H, D]; of the values weights [H, D, D / H] and biases [D].
    """
    query, key, value = attention.query, attention.key, attention.value
    size, heads = query.in_features, attention.num_heads
    scale = math.sqrt(size // heads)

    def rounded(parameter: Tensor) -> Tensor:
        return parameter.detach().to(dtype).float()

    return [
        rounded(query.weight) / scale,
        rounded(query.bias) / scale,
        rounded(key.weight).view(heads, -1, size),
        rounded(value.weight).view(heads, -1, size).transpose(1, 2).contiguous(),
        rounded(value.bias),
    ]


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
    return packed, bias


def _plain(*parameters: Tensor) -> list[Tensor]:
    return [parameter.detach() for parameter in parameters]


def _norms(*norms: nn.LayerNorm) -> list[Tensor]:
    return [tensor for norm in norms for tensor in _plain(norm.weight, norm.bias)]
