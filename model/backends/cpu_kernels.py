"""Runs an encoder on a processor by the project's own kernels, `model/kernels`.

Legend: B texts, T tokens of the longest text, D hidden size, H heads, C classes, L layers.

Nothing computes padding, and the last layer computes only the first token. The factors of products
are float32, bfloat16 or bytes; everything else is float32. Each number is the same sum in the same
order, whatever else is in the pass. A pass is one call without the interpreter's lock.
"""

import math
from ctypes import Array, byref

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from model.backends.base import Runner
from model.backends.cpu_packed import PackedEncoder, has_amx, join_inputs
from model.backends.eager import CpuBackend
from model.backends.kernels import (
    ACTIVATIONS,
    KINDS,
    OUT_OF_MEMORY,
    FirstToken,
    InstructionSet,
    Layer,
    Network,
    Norm,
    Projection,
    choose_set,
)
from model.network.architecture import Network as AnyNetwork
from model.network.attention import MultiHeadAttention
from model.network.config import EncoderConfig
from model.network.encoder import EncoderClassifier
from model.network.layers import EncoderLayer
from model.types import Batch, ClassifierOutput

_WORD_BYTES = 4
# With AMX, oneDNN computes large bfloat16 products faster than these kernels. A pass of so few
# tokens takes as long as its weights need to come from memory.
_FEW_TOKENS = 48
# Processors without VNNI add the products of two neighbours in 16 bits. With states of 8 bits, they
# hold weights that add up to 128 where their signs are the same. So int8 is one on all processors.
_LARGEST_PAIR = 127


def can_run(config: EncoderConfig, dtype: torch.dtype) -> bool:
    """Returns whether the kernels compute an encoder here."""
    sizes = config.hidden_size, config.intermediate_size
    return choose_set(dtype) is not None and all(size % _WORD_BYTES == 0 for size in sizes)


class KernelBackend(CpuBackend):
    """A processor with the project's own kernels, for an encoder."""

    copies_layers = True
    computes_padding = False

    def __init__(self, device: torch.device, dtype: torch.dtype, *, threads: int) -> None:
        super().__init__(device, dtype, threads=threads)
        chosen = choose_set(dtype)
        assert chosen is not None, "can_run asks for it first"  # noqa: S101
        self.name = f"kernels ({chosen.family})"
        # Threads that spin between the steps of a pass lose little by waiting for each other.
        self.worth_sharing_tokens = 8

    def load(self, network: AnyNetwork, *, pad_token_id: int) -> Runner:
        """Packs the projections; embeddings are shared with the network."""
        if not isinstance(network, EncoderClassifier):
            raise TypeError(f"only encoders are packed, got {type(network).__name__}")
        short = KernelEncoder(network, dtype=self.dtype)
        served: KernelEncoder | ShortAndLong = short
        if self.dtype == torch.bfloat16 and has_amx():
            served = ShortAndLong(short, PackedEncoder(network))
        network.avoid_onednn_gelu()
        return Runner(served, device=self.device, pad_token_id=pad_token_id)


class KernelEncoder:
    """An encoder with packed weights, for inference; it shares only the embeddings."""

    def __init__(
        self,
        network: EncoderClassifier,
        *,
        dtype: torch.dtype,
        instructions: InstructionSet | None = None,
    ) -> None:
        self._dtype = dtype
        chosen = instructions or choose_set(dtype)
        assert chosen is not None, "can_run asks for the library first"  # noqa: S101
        self._encode = chosen.encode
        self._panel = chosen.panel_columns
        self._kept: list[Tensor | Array[Layer]] = []  # what the structures point to
        layers = [layer for layer in network.layers if isinstance(layer, EncoderLayer)]
        embeddings = network.embeddings
        positions = embeddings.position_embeddings()  # [P, D]
        self._shape = len(layers), network.num_heads
        self._classes = network.classifier.out_features
        with torch.no_grad():
            laid_out = (Layer * len(layers))(
                *(self._layer(layer, is_last=layer is layers[-1]) for layer in layers)
            )
            self._kept.append(laid_out)
            self._network = Network(
                KINDS[dtype],
                ACTIVATIONS[layers[0].activation],
                ACTIVATIONS[network.pooling],
                len(layers),
                positions.shape[1],
                network.num_heads,
                layers[0].intermediate.out_features,
                self._classes,
                len(embeddings.tokens.weight),
                len(positions),
                embeddings.norm.eps,
                self._keep(embeddings.tokens.weight),
                self._keep(positions),
                self._norm(embeddings.norm),
                laid_out,
                self._first_token(layers[-1].attention),
                self._linear(network.pooler, torch.float32),
                self._linear(network.classifier, torch.float32),
            )

    def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        """Classifies a batch, as `EncoderClassifier.forward` does."""
        ids = batch.input_ids.numpy()
        size, longest = ids.shape
        if batch.key_padding_mask is None:
            lengths = np.full(size, longest)
        else:
            real = ~batch.key_padding_mask.numpy()
            lengths, ids = real.sum(axis=1), ids[real]
        ids = np.ascontiguousarray(ids)
        logits = np.empty((size, self._classes), np.float32)
        layers, heads = self._shape
        shape = (layers, size, heads, longest, longest) if need_weights else (0,)
        weights = np.zeros(shape, np.float32)  # padding stays 0
        mask = None if batch.head_mask is None else batch.head_mask.contiguous()  # [L, B, H]
        status = self._encode(
            byref(self._network),
            ids.ctypes.data,
            lengths.ctypes.data,
            size,
            torch.get_num_threads(),
            logits.ctypes.data,
            weights.ctypes.data if need_weights else None,
            longest,
            None if mask is None else mask.data_ptr(),
        )
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"no memory for a pass of {size} texts of up to {longest} tokens")
        if status:
            raise IndexError(
                f"the network has {self._network.vocabulary} tokens and "
                f"{self._network.positions} positions, and the batch asks for others"
            )
        return ClassifierOutput(torch.from_numpy(logits), tuple(map(torch.from_numpy, weights)))

    def _layer(self, layer: EncoderLayer, *, is_last: bool) -> Layer:
        return Layer(
            self._projection(*join_inputs(layer.attention, with_values=not is_last), self._dtype),
            self._linear(layer.attention.output, self._dtype),
            self._linear(layer.intermediate, self._dtype),
            self._linear(layer.output, self._dtype),
            self._norm(layer.attention_norm),
            self._norm(layer.output_norm),
        )

    def _first_token(self, attention: MultiHeadAttention) -> FirstToken:
        query, key, value = attention.query, attention.key, attention.value
        size, heads = query.in_features, attention.num_heads
        scale = math.sqrt(size // heads)
        keys = [pack(part.T, self._panel) for part in self._round(key.weight).view(heads, -1, size)]
        values = [
            pack(part, self._panel) for part in self._round(value.weight).view(heads, -1, size)
        ]
        return FirstToken(
            self._projection(
                self._round(query.weight) / scale, self._round(query.bias) / scale, torch.float32
            ),
            self._keep(torch.stack(keys)),
            self._keep(torch.stack(values)),
            self._keep(self._round(value.bias)),
            keys[0].numel(),
            values[0].numel(),
        )

    def _linear(self, part: nn.Linear, dtype: torch.dtype) -> Projection:
        return self._projection(part.weight, part.bias, dtype)

    def _projection(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Projection:
        scales = sums = None
        if dtype == torch.int8:
            weight, terms = quantize(weight, bias)
            scales, sums = (self._keep(self._fill(row)) for row in terms[:2])
        else:
            weight, bias = weight.to(dtype), bias.to(dtype)
        columns, length = weight.shape
        return Projection(
            self._keep(pack(weight, self._panel)),
            self._keep(self._fill(bias)),
            scales,
            sums,
            length * weight.element_size() // _WORD_BYTES,
            columns,
        )

    def _norm(self, norm: nn.LayerNorm) -> Norm:
        return Norm(self._keep(norm.weight), self._keep(norm.bias))

    def _keep(self, tensor: Tensor) -> int:
        """Returns the address of a tensor, which stays as long as this encoder."""
        kept = tensor.detach().contiguous()
        self._kept.append(kept)
        return kept.data_ptr()

    def _fill(self, row: Tensor) -> Tensor:
        """Fills a row of numbers for columns up to whole panels, in float32."""
        return functional.pad(row.float(), (0, -len(row) % self._panel))

    def _round(self, parameter: Tensor) -> Tensor:
        """Rounds a parameter as the factors of products are rounded."""
        return parameter if self._dtype == torch.int8 else parameter.to(self._dtype).float()


class ShortAndLong:
    """Runs passes of few tokens by one network and the others by another."""

    def __init__(self, short: KernelEncoder, long: PackedEncoder) -> None:
        self._short = short
        self._long = long

    def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        """Classifies a batch, as `EncoderClassifier.forward` does."""
        chosen = self._short if batch.input_ids.numel() <= _FEW_TOKENS else self._long
        return chosen(batch, need_weights=need_weights)


def quantize(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Quantizes a projection, float32 [columns, sum] with its bias [columns], to bytes.

    A weight has a scale for each column, and an input one for each token (Dettmers et al. 2022,
    "LLM.int8()", section 2, without outliers), so that no scale depends on other texts of a batch.

    Returns:
        The bytes, int8 [columns, sum]; and float32 [3, columns]: for each column its scale, the sum
        of its bytes times that scale, and its bias.
    """
    pairs = weight.reshape(len(weight), -1, 2)
    positive, negative = pairs.clamp(min=0).sum(2), pairs.clamp(max=0).sum(2)
    largest = torch.maximum(positive, -negative).amax(1)
    scales = (largest / _LARGEST_PAIR).clamp(min=1e-12)  # [columns]
    quantized = (weight / scales[:, None]).round()
    return quantized.to(torch.int8), torch.stack([scales, quantized.sum(1) * scales, bias])


def pack(weight: Tensor, panel: int) -> Tensor:
    """Packs a weight [columns, factors of a sum] in panels of some columns.

    Returns:
        The same type [panels, words, columns, factors of a word]; the last panel is filled with
        zeros.
    """
    factors = _WORD_BYTES // weight.element_size()
    columns, length = weight.shape
    filled = functional.pad(weight, (0, 0, 0, -columns % panel))
    panels = filled.reshape(-1, panel, length // factors, factors)
    return panels.permute(0, 2, 1, 3).contiguous()
