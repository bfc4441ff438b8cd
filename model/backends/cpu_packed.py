"""Runs an encoder in bfloat16 on a processor with AMX, as one compiled call with oneDNN's products.

Legend: B batch, T tokens of the longest text, N tokens of all texts, D hidden size, H heads.

Only attention computes padding, and the last layer computes only the first token. A single call
releases the interpreter's lock once; a hundred operations would each wait for it. oneDNN keeps
code for each size, so token counts are rounded up.
"""

import math

import torch
from torch import Tensor

from model.backends.packed_pass import compiled
from model.network.attention import MultiHeadAttention
from model.network.encoder import EncoderClassifier
from model.network.layers import EncoderLayer
from model.types import Batch, ClassifierOutput

# oneDNN's names: of the function, and of its approximation.
_ACTIVATIONS = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
}
_NOTHING = torch.empty(0)
_NO_POSITIONS = torch.empty(0, dtype=torch.int64)
# Up to this length, the explicit products of float32 are faster than the fused kernel.
_EXPLICIT_MAX_LENGTH = 64
# Up to here, each extra token would cost noticeable time. The last layer computes one token for
# each text, beside all tokens of the other layers, so there a few more cost nothing.
_TOKENS_AS_IS, _CLS_AS_IS = 32, 4


def has_amx() -> bool:
    """Returns whether the processor multiplies tiles of bfloat16, and torch can use it."""
    has: bool = torch.cpu.get_capabilities().get("amx_bf16", False)
    return has and bool(torch._C._has_mkldnn)


class PackedEncoder:
    """An encoder with packed weights, for inference; it shares only embeddings and pooler."""

    def __init__(self, network: EncoderClassifier) -> None:
        layers = [layer for layer in network.layers if isinstance(layer, EncoderLayer)]
        embeddings = network.embeddings
        positions = embeddings.position_embeddings()  # [T, D]
        norm = embeddings.norm
        self._num_heads = network.num_heads
        self._eps = norm.eps
        self._pooling = network.pooling
        self._activation, self._approximate = _ACTIVATIONS[layers[0].activation]
        self._run = compiled()
        with torch.no_grad():
            self._embeddings = _detach(embeddings.tokens.weight, positions, norm.weight, norm.bias)
            self._projections: list[Tensor] = []
            self._biases: list[Tensor] = []
            self._norms: list[Tensor] = []
            for layer in layers:
                joined = join_inputs(layer.attention, with_values=layer is not layers[-1])
                others = (layer.attention.output, layer.intermediate, layer.output)
                for weight, bias in (joined, *((part.weight, part.bias) for part in others)):
                    narrow = weight.detach().bfloat16().contiguous()
                    laid_out = torch.ops.mkldnn._reorder_linear_weight(narrow, None)
                    self._projections.append(laid_out)
                    self._biases.append(bias.detach().bfloat16())
                for norm in (layer.attention_norm, layer.output_norm):
                    self._norms += _detach(norm.weight, norm.bias)
            self._cls = _cls_parameters(layers[-1].attention)
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
            self._biases,
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
            _NOTHING if batch.head_mask is None else batch.head_mask,
        )
        return ClassifierOutput(logits[:size], tuple(weights))


def join_inputs(attention: MultiHeadAttention, *, with_values: bool) -> tuple[Tensor, Tensor]:
    """Joins the projections to queries, keys and values: weights [3 D, D] and biases [3 D]."""
    parts = [attention.query, attention.key, *([attention.value] if with_values else [])]
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])


def _cls_parameters(attention: MultiHeadAttention) -> list[Tensor]:
    """Returns the parameters for attention of the first token, float32 rounded to bfloat16."""
    query, key, value = attention.query, attention.key, attention.value
    size, heads = query.in_features, attention.num_heads
    scale = math.sqrt(size // heads)

    def rounded(parameter: Tensor) -> Tensor:
        return parameter.detach().bfloat16().float()

    return [
        rounded(query.weight) / scale,  # [D, D]
        rounded(query.bias) / scale,  # [D]
        rounded(key.weight).view(heads, -1, size),  # [H, D / H, D]
        rounded(value.weight).view(heads, -1, size).transpose(1, 2).contiguous(),  # [H, D, D / H]
        rounded(value.bias),  # [D]
    ]


def _locate_tokens(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns a bias for the scores of keys, and where the tokens are among the padding."""
    padding = batch.key_padding_mask
    if padding is None:
        size, length = batch.input_ids.shape
        return (
            _NOTHING,
            _round_up(torch.arange(size * length)),
            _NO_POSITIONS,
            _round_up(torch.arange(0, size * length, length), as_is=_CLS_AS_IS),
        )
    bias = torch.zeros(padding.shape).masked_fill_(padding, -math.inf)  # [B, T]
    real = ~padding.flatten()
    rows = (real.cumsum(0) - 1).clamp_(min=0)  # index into `tokens` for each position, [B * T]
    cls_rows = rows.view(padding.shape)[:, 0]  # of the first token of each text, [B]
    tokens = _round_up(real.nonzero().flatten())  # positions in [B * T], [N]
    return bias[:, None, None], tokens, rows, _round_up(cls_rows, as_is=_CLS_AS_IS)


def _round_up(indices: Tensor, *, as_is: int = _TOKENS_AS_IS) -> Tensor:
    """Repeats the first of more than `as_is` indices: products get few different sizes."""
    count = len(indices)
    step = 1 if count <= as_is else 8 if count <= 128 else 16
    extra = -count % step
    return torch.cat([indices, indices[:1].expand(extra)]) if extra else indices


def _detach(*parameters: Tensor) -> list[Tensor]:
    return [parameter.detach() for parameter in parameters]
