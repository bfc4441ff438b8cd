"""Runs an encoder on a processor by the project's own kernels, `model/kernels`.

Legend: B texts, T tokens of the longest text, D hidden size, H heads, C classes, L layers.

Nothing computes padding, and the last layer computes only the first token. The factors of products
are float32, bfloat16 or bytes; everything else is float32. Each number is the same sum in the same
order, whatever else is in the pass. A pass is one call without the interpreter's lock.
"""

import math
from collections.abc import Sequence
from ctypes import byref
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from model.backends import kernels
from model.backends.base import (
    PassOutput,
    Processor,
    Runner,
    Selection,
    join_head_masks,
    pass_threads,
)
from model.checkpoint.opening import Checkpoint
from model.checkpoint.weights import Weights
from model.explain.attention_steps import Projected
from model.explain.on_demand import OnDemand
from model.network.config import EncoderConfig
from model.types import Encoding

if TYPE_CHECKING:  # it imports torch
    from model.network.architecture import Network

Floats = NDArray[np.float32]

_WORD_BYTES = 4
# A derivative in float32 by torch beside a prediction, on AVX-512; with AVX2 it is half of this.
_GRADIENT_COST = {"float32": 5.0, "bfloat16": 7.5, "int8": 10.0}
# Processors without VNNI add the products of two neighbours in 16 bits. With states of 8 bits, they
# hold weights that add up to 128 where their signs are the same. So int8 is one on all processors.
_LARGEST_PAIR = 127


def can_run(config: EncoderConfig, dtype: str) -> bool:
    """Returns whether the kernels compute an encoder here."""
    sizes = config.hidden_size, config.intermediate_size
    return kernels.choose_set(dtype) is not None and all(size % _WORD_BYTES == 0 for size in sizes)


class KernelBackend(Processor):
    """A processor with the project's own kernels, for an encoder."""

    computes_padding = False
    # Threads that spin between the steps of a pass lose little by waiting for each other.
    worth_sharing_tokens = 8

    def __init__(self, device: str, dtype: str, *, threads: int) -> None:
        super().__init__(device, dtype, threads=threads)
        chosen = kernels.choose_set(dtype)
        assert chosen is not None, "can_run asks for it first"  # noqa: S101
        self.name = f"kernels ({chosen.family})"
        self.gradient_cost = _GRADIENT_COST[dtype]

    def load(self, checkpoint: Checkpoint) -> "KernelRunner":
        """Packs the projections; embeddings are read where the file is mapped."""
        return KernelRunner(checkpoint, dtype=self.dtype)


class KernelRunner(Runner):
    """Passes of an encoder; float32 weights are there only while steps or derivatives need them."""

    def __init__(self, checkpoint: Checkpoint, *, dtype: str) -> None:
        config = checkpoint.config
        assert isinstance(config, EncoderConfig)  # noqa: S101 - can_run asks for it first
        weights = checkpoint.load_weights()
        self._encoder = KernelEncoder(weights, config, dtype=dtype)
        weights.release()
        self._weights, self._config = weights, config
        self._exact = OnDemand(lambda: KernelEncoder(weights, config, dtype="float32"))
        self.network = OnDemand(self._widen)

    def run(self, encodings: Sequence[Encoding], selection: Selection | None = None) -> PassOutput:
        """Classifies texts in one pass."""
        output = self._encoder(encodings, need_weights=selection is not None)
        if selection is None:
            return output
        heads: slice | list[int] = slice(None)  # a list would copy
        if len(selection.heads) < self._config.num_heads:
            heads = list(selection.heads)
        chosen = (output.weights[layer] for layer in selection.layers)
        return PassOutput(output.logits, tuple(layer[:, heads] for layer in chosen))

    def embed(self, encodings: Sequence[Encoding]) -> Floats:
        """Returns what the classifier reads of B texts, float32 [B, D], in one pass."""
        return self._encoder.pool(encodings)

    def project(self, encoding: Encoding, layer: int) -> Projected:
        """Runs the layers before one of them, and its projections, in float32."""
        with self._exact.use() as encoder:
            states = encoder.states_before(layer, encoding)  # [T, D]
        queries, keys, values = (
            self._project(states, f"layers.{layer}.attention.{part}")
            for part in ("query", "key", "value")
        )
        return queries, keys, values

    def _project(self, states: Floats, name: str) -> Floats:
        weight, bias = (self._weights[f"{name}.{part}"] for part in ("weight", "bias"))
        projected = states @ weight.astype(np.float32).T + bias.astype(np.float32)  # [T, D]
        return projected.reshape(len(states), self._config.num_heads, -1).swapaxes(0, 1)

    def _widen(self) -> "Network":
        from model.backends.eager import avoid_kernel_cache
        from model.network.architecture import load

        network = load(self._config, self._weights)
        avoid_kernel_cache(network)
        return network


class KernelEncoder:
    """An encoder with packed weights, for inference; `dtype` is that of the factors of products.

    Embeddings are used where they lie. Without `instructions` it takes the processor's fastest.
    """

    def __init__(
        self,
        weights: Weights,
        config: EncoderConfig,
        *,
        dtype: str,
        instructions: kernels.InstructionSet | None = None,
    ) -> None:
        self._weights = weights
        self._dtype = dtype
        chosen = instructions or kernels.choose_set(dtype)
        assert chosen is not None, "can_run asks for the library first"  # noqa: S101
        self._encode = chosen.encode
        self._panel = chosen.panel_columns
        self._kept: list[NDArray[Any]] = []  # what the structures point to
        self._heads = config.num_heads
        self._classes = len(config.labels)
        positions = self._read("embeddings.positions.weight")[config.position_offset :]  # [P, D]
        if config.type_vocab_size:
            positions = positions + self._read("embeddings.types.weight")[0]
        tokens = weights["embeddings.tokens.weight"]
        if tokens.dtype != np.float16:
            tokens = tokens.astype(np.float32, copy=False)
        last = config.num_layers - 1
        self._layers = (kernels.Layer * config.num_layers)(
            *(self._layer(number, is_last=number == last) for number in range(last + 1))
        )
        self._network = kernels.Network(
            kernels.KINDS[dtype],
            kernels.ACTIVATIONS[config.hidden_act],
            kernels.ACTIVATIONS[config.pooling],
            config.num_layers,
            config.hidden_size,
            config.num_heads,
            config.intermediate_size,
            self._classes,
            len(tokens),
            len(positions),
            config.layer_norm_eps,
            self._keep(tokens),
            tokens.dtype == np.float16,
            self._keep(positions),
            self._norm("embeddings.norm"),
            self._layers,
            self._first_token(f"layers.{last}.attention"),
            self._linear("pooler", "float32"),
            self._linear("classifier", "float32"),
        )

    def __call__(self, encodings: Sequence[Encoding], *, need_weights: bool = False) -> PassOutput:
        """Classifies B texts; with weights of every layer, float32 [B, H, T, T]."""
        logits = np.empty((len(encodings), self._classes), np.float32)
        longest = max(len(each.input_ids) for each in encodings)
        shape = (len(self._layers), len(encodings), self._heads, longest, longest)
        weights = np.zeros(shape if need_weights else (0,), np.float32)  # padding stays 0
        self._run(self._network, encodings, longest, logits, weights if need_weights else None)
        return PassOutput(logits, tuple(weights))

    def pool(self, encodings: Sequence[Encoding]) -> Floats:
        """Returns what the classifier reads of B texts, float32 [B, D]."""
        network = kernels.Network.from_buffer_copy(self._network)
        network.classifier = self._identity
        pooled = np.empty((len(encodings), network.hidden), np.float32)
        self._run(network, encodings, max(len(each.input_ids) for each in encodings), pooled, None)
        return pooled

    @cached_property
    def _identity(self) -> kernels.Projection:  # its logits are the features that it reads, exactly
        size = self._network.hidden
        return self._projection(np.eye(size, dtype="f4"), np.zeros(size, np.float32), "float32")

    def states_before(self, layer: int, encoding: Encoding) -> Floats:
        """Runs the layers before one of them over a text; returns its states, float32 [T, D]."""
        network = kernels.Network.from_buffer_copy(self._network)
        network.layers = layer + 1
        length = len(encoding.input_ids)
        states = np.empty((length, network.hidden), np.float32)
        self._run(network, [encoding], length, np.empty(self._classes, np.float32), None, states)
        return states

    def _run(
        self,
        network: kernels.Network,
        encodings: Sequence[Encoding],
        longest: int,
        logits: Floats,
        weights: Floats | None,
        states: Floats | None = None,
    ) -> None:
        # One flat array: a list for each row costs several times as much.
        ids = np.fromiter(chain.from_iterable(each.input_ids for each in encodings), np.int64)
        lengths = np.fromiter((len(each.input_ids) for each in encodings), np.int64)
        mask = join_head_masks(encodings)  # [L, B, H]
        optional = (None if each is None else each.ctypes.data for each in (weights, mask, states))
        to_weights, to_mask, to_states = optional
        status = self._encode(
            byref(network),
            ids.ctypes.data,
            lengths.ctypes.data,
            len(encodings),
            pass_threads(),
            logits.ctypes.data,
            to_weights,
            longest,
            to_mask,
            to_states,
        )
        if status == kernels.OUT_OF_MEMORY:
            raise MemoryError(
                f"no memory for a pass of {len(encodings)} texts of up to {longest} tokens"
            )
        if status:
            raise IndexError(
                f"the network has {network.vocabulary} tokens and {network.positions} positions, "
                "and the batch asks for others"
            )

    def _layer(self, number: int, *, is_last: bool) -> kernels.Layer:
        prefix = f"layers.{number}."
        # The last layer computes its values by `_first_token`.
        parts = ("query", "key") if is_last else ("query", "key", "value")
        weight, bias = (
            np.concatenate([self._read(f"{prefix}attention.{part}.{each}") for part in parts])
            for each in ("weight", "bias")
        )  # [3 D, D] and [3 D]
        return kernels.Layer(
            self._projection(weight, bias, self._dtype),
            self._linear(f"{prefix}attention.output", self._dtype),
            self._linear(f"{prefix}intermediate", self._dtype),
            self._linear(f"{prefix}output", self._dtype),
            self._norm(f"{prefix}attention_norm"),
            self._norm(f"{prefix}output_norm"),
        )

    def _first_token(self, attention: str) -> kernels.FirstToken:
        query, query_bias, key, value, value_bias = (
            self._round(self._read(f"{attention}.{name}"))
            for name in ("query.weight", "query.bias", "key.weight", "value.weight", "value.bias")
        )
        size, heads = query.shape[1], self._heads
        scale = np.float32(math.sqrt(size // heads))
        keys = [pack(part.T, self._panel) for part in key.reshape(heads, -1, size)]
        values = [pack(part, self._panel) for part in value.reshape(heads, -1, size)]
        return kernels.FirstToken(
            self._projection(query / scale, query_bias / scale, "float32"),
            self._keep(np.stack(keys)),
            self._keep(np.stack(values)),
            self._keep(value_bias),
            keys[0].size,
            values[0].size,
        )

    def _linear(self, name: str, dtype: str) -> kernels.Projection:
        return self._projection(self._read(f"{name}.weight"), self._read(f"{name}.bias"), dtype)

    def _projection(self, weight: Floats, bias: Floats, dtype: str) -> kernels.Projection:
        factors: NDArray[Any] = weight
        scales = sums = None
        if dtype == "int8":
            factors, own_scales, own_sums = quantize(weight)
            scales, sums = self._keep(self._fill(own_scales)), self._keep(self._fill(own_sums))
        elif dtype == "bfloat16":
            factors, bias = to_bfloat16(weight), widen(to_bfloat16(bias))
        columns, length = weight.shape
        return kernels.Projection(
            self._keep(pack(factors, self._panel)),
            self._keep(self._fill(bias)),
            scales,
            sums,
            length * factors.itemsize // _WORD_BYTES,
            columns,
        )

    def _norm(self, name: str) -> kernels.Norm:
        weight, bias = (self._keep(self._read(f"{name}.{part}")) for part in ("weight", "bias"))
        return kernels.Norm(weight, bias)

    def _read(self, name: str) -> Floats:
        read: Floats = self._weights[name].astype(np.float32, copy=False)
        return read

    def _keep(self, array: NDArray[Any]) -> int:
        """Returns the address of an array, which stays as long as this encoder."""
        kept = np.require(array, requirements=["C", "ALIGNED"])
        self._kept.append(kept)
        return int(kept.ctypes.data)

    def _fill(self, row: Floats) -> Floats:
        """Fills a row of numbers for columns up to whole panels."""
        return np.pad(row, (0, -len(row) % self._panel))

    def _round(self, parameter: Floats) -> Floats:
        """Rounds a parameter as the factors of products are rounded."""
        return widen(to_bfloat16(parameter)) if self._dtype == "bfloat16" else parameter


def to_bfloat16(numbers: Floats) -> NDArray[np.uint16]:
    """Rounds finite numbers to the nearest bfloat16, to even ones in the middle."""
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    rounded: NDArray[np.uint16] = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return rounded


def widen(numbers: NDArray[np.uint16]) -> Floats:
    """Returns bfloat16 numbers as float32."""
    return (numbers.astype(np.uint32) << 16).view(np.float32)


def quantize(weight: Floats) -> tuple[NDArray[np.int8], Floats, Floats]:
    """Quantizes a weight [columns, sum]; returns each column's bytes, scale, and sum times scale.

    A weight has a scale for each column, and an input one for each token (Dettmers et al. 2022,
    "LLM.int8()", section 2, without outliers), so that no scale depends on other texts of a batch.
    """
    pairs = weight.reshape(len(weight), -1, 2)
    positive, negative = np.maximum(pairs, 0).sum(2), np.minimum(pairs, 0).sum(2)
    largest = np.maximum(positive, -negative).max(1)
    scales = np.maximum(largest / np.float32(_LARGEST_PAIR), np.float32(1e-12))  # [columns]
    quantized = np.rint(weight / scales[:, None])
    return quantized.astype(np.int8), scales, quantized.sum(1) * scales


def pack(weight: NDArray[Any], panel: int) -> NDArray[Any]:
    """Packs a weight [columns, sum] in panels, the last filled with zeros, for `product.h`."""
    factors = _WORD_BYTES // weight.itemsize
    columns, length = weight.shape
    filled = np.pad(weight, ((0, -columns % panel), (0, 0)))
    panels = filled.reshape(-1, panel, length // factors, factors)
    return np.ascontiguousarray(panels.transpose(0, 2, 1, 3))
