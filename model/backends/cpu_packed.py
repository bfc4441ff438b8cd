"""Runs an encoder on a processor as one compiled call over packed weights, with oneDNN's products.

Legend: B batch, T tokens of the longest text, N tokens of all texts, D hidden size, H heads.

Only attention computes padding, and the last layer computes only the first token. A single call
releases the interpreter's lock once; a hundred operations would each wait for it. oneDNN keeps
code for each size, so token counts are rounded up.
"""

import math
import platform

import torch
from torch import Tensor

from model.backends.base import Runner
from model.backends.eager import CpuBackend, avoid_kernel_cache
from model.backends.packed_pass import compiled
from model.backends.quantized import quantize_weight
from model.network.architecture import Network
from model.network.attention import MultiHeadAttention
from model.network.batch import Batch
from model.network.classifier import ClassifierOutput
from model.network.encoder import EncoderClassifier
from model.network.layers import EncoderLayer

# oneDNN's names: of the function, and of its approximation.
_ACTIVATIONS = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
}
_NO_BIAS = torch.empty(0)
_NO_MASK = torch.empty(0)
_NO_POSITIONS = torch.empty(0, dtype=torch.int64)
# Up to this length, the explicit products of float32 are faster than the fused kernel.
_EXPLICIT_MAX_LENGTH = 64
# Up to here, each extra token would cost noticeable time. The last layer computes one token for
# each text, beside all tokens of the other layers, so there a few more cost nothing.
_TOKENS_AS_IS, _CLS_AS_IS = 32, 4
_PROCESSORS = frozenset({"x86_64", "amd64"})


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Returns whether this processor and torch have the kernels for packed weights."""
    return (
        device.type == "cpu"
        and platform.machine().lower() in _PROCESSORS
        and bool(torch._C._has_mkldnn)
        # Without AVX-512 there is no kernel for bfloat16, and oneDNN refuses to pack it.
        and (dtype != torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))
    )


class PackedBackend(CpuBackend):
    """A processor with the kernels of oneDNN, for an encoder."""

    name = "onednn"
    copies_layers = True
    computes_padding = False
    narrow_embeddings = True

    def load(self, network: Network, *, pad_token_id: int, num_heads: int) -> Runner:
        """Packs the projections; embeddings are shared with the network."""
        if not isinstance(network, EncoderClassifier):
            raise TypeError(f"only encoders are packed, got {type(network).__name__}")
        served = PackedEncoder(network, dtype=self.dtype)
        avoid_kernel_cache(network)
        return Runner(served, device=self.device, pad_token_id=pad_token_id, num_heads=num_heads)


class PackedEncoder:
    """An encoder with packed weights, for inference; it shares only embeddings and pooler."""

    def __init__(self, network: EncoderClassifier, *, dtype: torch.dtype) -> None:
        layers = [layer for layer in network.layers if isinstance(layer, EncoderLayer)]
        embeddings = network.embeddings
        places = embeddings.places()  # [T, D]
        norm = embeddings.norm
        self._num_heads = network.num_heads
        self._eps = norm.eps
        self._pooling = network.pooling
        self._activation, self._approximate = _ACTIVATIONS[layers[0].activation]
        self._run = compiled()
        self._dtype = torch.float32 if dtype == torch.int8 else dtype
        self._pack = quantize_weight if dtype == torch.int8 else _reorder_weight
        with torch.no_grad():
            self._embeddings = _detach(embeddings.tokens.weight, places, norm.weight, norm.bias)
            self._projections: list[Tensor] = []
            self._terms: list[Tensor] = []
            self._norms: list[Tensor] = []
            for layer in layers:
                self._add_layer(layer, is_last=layer is layers[-1])
            self._cls = _cls_parameters(layers[-1].attention, self._dtype)
            self._classifier = _detach(
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
            *_locate_tokens(batch),
            self._embeddings,
            self._projections,
            self._terms,
            self._norms,
            self._cls,
            self._classifier,
            self._num_heads,
            self._eps,
            self._activation,
            self._approximate,
            self._pooling,
            need_weights or length <= _EXPLICIT_MAX_LENGTH,
            need_weights,
            _NO_MASK if batch.head_mask is None else batch.head_mask,
        )
        return ClassifierOutput(logits[:size], tuple(weights))

    def _add_layer(self, layer: EncoderLayer, *, is_last: bool) -> None:
        attention = layer.attention
        parts = [attention.query, attention.key, *(() if is_last else (attention.value,))]
        joined = (
            torch.cat([part.weight for part in parts]),  # [3 D, D]
            torch.cat([part.bias for part in parts]),
        )
        others = (attention.output, layer.intermediate, layer.output)
        for weight, bias in (joined, *((part.weight, part.bias) for part in others)):
            weight, bias = weight.detach().to(self._dtype), bias.detach().to(self._dtype)
            projection, terms = self._pack(weight.contiguous(), bias)
            self._projections.append(projection)
            self._terms.append(terms)
        for norm in (layer.attention_norm, layer.output_norm):
            self._norms += _detach(norm.weight, norm.bias)


def _cls_parameters(attention: MultiHeadAttention, dtype: torch.dtype) -> list[Tensor]:
    """Returns the parameters for attention of the first token, float32 rounded to `dtype`.

    Queries, divided by the root of D / H: weights [D, D] and biases [D]. Keys: weights
    [H, D / H, D]. Values: weights [H, D, D / H] and biases [D].
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


def _locate_tokens(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Finds the tokens of a batch among its padding.

    Returns:
        bias: added to the scores of each key: 0 or minus infinity, float32 [B, 1, 1, T]; empty
            without padding.
        tokens: position of each token in [B * T], int64 [N]; N and B are rounded up.
        rows: index into `tokens` for each position, int64 [B * T]; empty without padding.
        cls_rows: index into `tokens` of each text's first token, int64 [B].
    """
    padding = batch.key_padding_mask
    if padding is None:
        size, length = batch.input_ids.shape
        return (
            _NO_BIAS,
            _round_up(torch.arange(size * length)),
            _NO_POSITIONS,
            _round_up(torch.arange(0, size * length, length), as_is=_CLS_AS_IS),
        )
    bias = torch.zeros(padding.shape).masked_fill_(padding, -math.inf)  # [B, T]
    real = ~padding.flatten()
    rows = (real.cumsum(0) - 1).clamp_(min=0)
    cls_rows = rows.view(padding.shape)[:, 0]
    tokens = _round_up(real.nonzero().flatten())
    return bias[:, None, None], tokens, rows, _round_up(cls_rows, as_is=_CLS_AS_IS)


def _round_up(indices: Tensor, *, as_is: int = _TOKENS_AS_IS) -> Tensor:
    """Repeats the first index, so that products have few different sizes.

    Up to `as_is` indices stay as they are.
    """
    count = len(indices)
    step = 1 if count <= as_is else 8 if count <= 128 else 16
    extra = -count % step
    return torch.cat([indices, indices[:1].expand(extra)]) if extra else indices


def _reorder_weight(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed, bias


def _detach(*parameters: Tensor) -> list[Tensor]:
    return [parameter.detach() for parameter in parameters]
