"""Classifies texts with a convolution and one attention layer, as the seed course does.

Legend: B batch, T words of the longest text, M max_length, E embedding_size, F features of a
position (num_filters, or E without a convolution), H heads, C labels.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.errors import ConfigurationError
from model.network.attention import MultiHeadAttention
from model.network.config import ConvAttentionConfig
from model.network.masks import mask_bias
from model.types import Batch, ClassifierOutput

_PAD_TOKEN_ID = 0
_TWO = 2
_EMBEDDING_BOUND = 0.05  # the course's library draws embeddings from this interval around 0


class ConvAttentionClassifier(nn.Module):
    """Embedding, convolution, multi-head self-attention, flattening and a sigmoid unit.

    With the sizes of the course it has 318,569 parameters: 96,032 in the embedding, 12,900 in the
    convolution, 206,436 in the attention and 3,201 in the sigmoid unit.

    Args:
        vocab_size: rows of the embedding; row 0 is padding.
        num_filters: filters of the convolution; None means no convolution.
        num_heads: H; None means no attention.
        mask_padding: whether attention ignores padding. In the course it does not.
        num_labels: C. Two classes have one sigmoid unit, as in the course; more have a unit each.

    Raises:
        ConfigurationError: a size is below 1, or there are fewer than two classes.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 3001,
        embedding_size: int = 32,
        num_filters: int | None = 100,
        kernel_size: int = 4,
        num_heads: int | None = 4,
        head_dim: int = 128,
        max_length: int = 32,
        mask_padding: bool = True,
        num_labels: int = 2,
    ) -> None:
        super().__init__()
        if num_labels < _TWO:
            raise ConfigurationError(f"num_labels must be at least 2, got {num_labels}")
        sizes = {
            "vocab_size": vocab_size,
            "embedding_size": embedding_size,
            "num_filters": num_filters,
            "kernel_size": kernel_size,
            "max_length": max_length,
        }
        for name, size in sizes.items():
            if size is not None and size < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {size}")
        self.max_length = max_length
        self.kernel_size = kernel_size
        self.mask_padding = mask_padding
        self.embedding = nn.Embedding(
            vocab_size, embedding_size, padding_idx=_PAD_TOKEN_ID if mask_padding else None
        )
        size = embedding_size
        self.convolution: nn.Conv1d | None = None
        if num_filters is not None:
            self.convolution = nn.Conv1d(embedding_size, num_filters, kernel_size)
            size = num_filters
        self.attention: MultiHeadAttention | None = None
        if num_heads is not None:
            self.attention = MultiHeadAttention(
                num_heads=num_heads, query_size=size, head_dim=head_dim
            )
        self.classifier = nn.Linear(max_length * size, 1 if num_labels == _TWO else num_labels)

    def embed_tokens(self, input_ids: Tensor) -> Tensor:
        """Embeds words: int64 [B, T] to float32 [B, T, E]."""
        embedded: Tensor = self.embedding(input_ids)
        return embedded

    def forward(
        self,
        batch: Batch,
        *,
        need_weights: bool = False,
        token_embeddings: Tensor | None = None,
        head_mask: Tensor | None = None,
    ) -> ClassifierOutput:
        """Classifies a batch of texts of at most M words, as `EncoderClassifier.forward` does.

        Returns:
            Logits, float32 [B, C]; of two classes 0 and the logit of the sigmoid unit. If
            requested, also one layer of weights, float32 [B, H, T, T].

        Raises:
            ConfigurationError: the batch is longer than M.
        """
        head_mask = batch.head_mask if head_mask is None else head_mask
        batch_size, length = batch.input_ids.shape
        states, masked = self._embed(batch, token_embeddings)  # [B, M, F]
        weights: tuple[Tensor, ...] = ()
        if self.attention is not None:
            inputs = states.to(self.attention.query.weight.dtype)
            attended = self.attention.attend(
                inputs,
                inputs,
                inputs,
                bias=mask_bias(masked, inputs.dtype),
                need_weights=need_weights,
                head_mask=None if head_mask is None else head_mask[0],
            )
            states = attended.hidden_states  # [B, M, F]
            if attended.attention_weights is not None:
                # This cuts off padding, to which masked attention gives no weight.
                weights = (attended.attention_weights[:, :, :length, :length],)
        flat = states.float().flatten(1)  # [B, M * F]
        logits = self.classifier(flat).float()  # [B, 1] or [B, C]
        if logits.shape[1] == 1:
            logits = torch.cat([logits.new_zeros(batch_size, 1), logits], dim=1)  # [B, 2]
        return ClassifierOutput(logits, weights)

    def attention_inputs(self, batch: Batch, layer: int) -> tuple[MultiHeadAttention, Tensor]:
        """Runs what comes before attention, layer 0; returns attention, and states [B, M, F]."""
        if self.attention is None or layer:
            count = int(self.attention is not None)
            raise ConfigurationError(f"layer {layer} does not exist: attention has {count} layers")
        states, _ = self._embed(batch, None)  # [B, M, F]
        return self.attention, states.to(self.attention.query.weight.dtype)

    def _embed(self, batch: Batch, token_embeddings: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns features of the positions [B, M, F], and the mask of padding [B, 1, 1, M]."""
        length = batch.input_ids.shape[1]
        surplus = self.max_length - length
        if surplus < 0:
            raise ConfigurationError(
                f"a text of at most {self.max_length} words is read, got {length}"
            )
        input_ids = functional.pad(batch.input_ids, (0, surplus), value=_PAD_TOKEN_ID)  # [B, M]
        masked = None
        if self.mask_padding:
            padding = batch.key_padding_mask  # [B, T]
            if padding is None:
                padding = torch.zeros_like(batch.input_ids, dtype=torch.bool)  # [B, T]
            masked = functional.pad(padding, (0, surplus), value=True)[:, None, None]
        states = self.embedding(input_ids)  # [B, M, E]
        if token_embeddings is not None:
            states = torch.cat([token_embeddings, states[:, length:]], dim=1)  # [B, M, E]
        if self.convolution is not None:
            states = functional.relu(self._convolve(self.convolution, states))  # [B, M, F]
        return states, masked

    def _convolve(self, convolution: nn.Conv1d, states: Tensor) -> Tensor:
        """Convolves and keeps the length: zeros on both sides, the odd one at the end."""
        around = self.kernel_size - 1
        before = around // 2
        padded = functional.pad(states.transpose(1, 2), (before, around - before))
        convolved: Tensor = convolution(padded)  # [B, F, M]
        return convolved.transpose(1, 2)  # [B, M, F]

    def initialize(self, *, generator: torch.Generator) -> None:
        """Draws fresh weights as the course's library does (Glorot and Bengio 2010)."""
        bound = _EMBEDDING_BOUND
        nn.init.uniform_(self.embedding.weight, -bound, bound, generator=generator)
        if self.embedding.padding_idx is not None:
            with torch.no_grad():
                self.embedding.weight[self.embedding.padding_idx].zero_()
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv1d):
                nn.init.xavier_uniform_(module.weight, generator=generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Converts the projections of attention to another type; the rest stays float32."""
        if self.attention is not None:
            self.attention.to(dtype)


def build_conv_attention(config: ConvAttentionConfig) -> ConvAttentionClassifier:
    """Builds the network of a configuration; its weights are neither drawn nor loaded."""
    sizes = config.model_dump(exclude={"labels"})
    return ConvAttentionClassifier(**sizes, num_labels=len(config.labels))
