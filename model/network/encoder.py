"""Classifies token ids with a transformer encoder in the layout of BERT and its relatives.

Legend: B batch, T tokens, D hidden size, L layers, H heads, F intermediate size, C classes.

Devlin et al. 2019, "BERT"; layers are post-norm as in Vaswani et al. 2017. The residual stream and
the layer norms are float32, whatever type the projections compute in: with a bfloat16 residual,
the probabilities of a text by itself and in a batch differ by more than a hundredth.
"""

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from model.network.attention import MultiHeadAttention
from model.network.config import EncoderConfig
from model.network.families import Pooling
from model.network.layers import Embeddings, EncoderLayer
from model.network.masks import mask_bias
from model.types import Batch, ClassifierOutput

POOLINGS: Mapping[Pooling, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class EncoderClassifier(nn.Module):
    """Embeddings, encoder layers, a pooler on the first token and a linear classifier."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size, dropout = config.hidden_size, config.classifier_dropout
        self.num_heads = config.num_heads
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        self.pooler = nn.Linear(size, size)
        self.pooling = config.pooling
        self.classifier_dropout = nn.Dropout(
            config.hidden_dropout_prob if dropout is None else dropout
        )
        self.classifier = nn.Linear(size, len(config.labels))

    def embed_tokens(self, input_ids: Tensor) -> Tensor:
        """Embeds tokens without their positions: int64 [B, T] to float32 [B, T, D]."""
        return self.embeddings.embed_tokens(input_ids)

    def forward(
        self,
        batch: Batch,
        *,
        need_weights: bool = False,
        token_embeddings: Tensor | None = None,
        head_mask: Tensor | None = None,
    ) -> ClassifierOutput:
        """Classifies a batch.

        Args:
            batch: B texts of at most T tokens.
            need_weights: takes the explicit path through every layer and returns its weights.
            token_embeddings: replace the output of `embed_tokens`, float32 [B, T, D].
            head_mask: factor of each head's output, float32 [L, H]; None means that of the batch.

        Returns:
            Logits, float32 [B, C], and if requested the weights of each layer [B, H, T, T].
        """
        head_mask = batch.head_mask if head_mask is None else head_mask
        hidden_states = self.embeddings(batch.input_ids, tokens=token_embeddings)  # [B, T, D]
        bias = self._bias(batch)
        weights = []
        for index, layer in enumerate(self.layers):
            hidden_states, layer_weights = layer(
                hidden_states,
                bias=bias,
                need_weights=need_weights,
                head_mask=None if head_mask is None else head_mask[index],
                # The classifier reads only the first token of the last layer.
                cls_only=index == len(self.layers) - 1 and not need_weights,
            )
            if layer_weights is not None:
                weights.append(layer_weights)
        pooled = POOLINGS[self.pooling](self.pooler(hidden_states[:, 0]))  # [B, D]
        logits = self.classifier(self.classifier_dropout(pooled))  # [B, C]
        return ClassifierOutput(logits.float(), tuple(weights))

    def attention_inputs(self, batch: Batch, layer: int) -> tuple[MultiHeadAttention, Tensor]:
        """Runs the layers before one of them; returns its attention, and states [B, T, D]."""
        hidden_states = self.embeddings(batch.input_ids)  # [B, T, D]
        bias, head_mask = self._bias(batch), batch.head_mask
        for index, each in enumerate(self.layers[:layer]):
            mask = None if head_mask is None else head_mask[index]
            hidden_states, _ = each(hidden_states, bias=bias, need_weights=False, head_mask=mask)
        chosen = cast("EncoderLayer", self.layers[layer])
        return chosen.attention, hidden_states.to(chosen.intermediate.weight.dtype)

    def _bias(self, batch: Batch) -> Tensor | None:
        """Turns the padding of a batch into what is added to scores."""
        padding = batch.key_padding_mask
        masked = None if padding is None else padding[:, None, None]  # [B, 1, 1, T]
        return mask_bias(masked, next(self.layers.parameters()).dtype)

    def initialize(self, *, std: float, generator: torch.Generator) -> None:
        """Draws fresh weights: normal for matrices, zero for biases and padding, one for norms."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=std, generator=generator)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                with torch.no_grad():
                    module.weight[module.padding_idx].zero_()
            if isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Converts the projections of the layers, where nearly all work is, to another type."""
        for module in self.layers.modules():
            if isinstance(module, nn.Linear):
                module.to(dtype)


def build_encoder(config: EncoderConfig) -> EncoderClassifier:
    """Builds the network of a configuration; its weights are neither drawn nor loaded."""
    return EncoderClassifier(config)
