"""Reads a checkpoint as a torch network that engines can be given: logits of ids and a mask."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoModelForSequenceClassification

# Stands for minus infinity, which float32 sums bear and bfloat16 too.
_HIDDEN = -1e9


class Network(nn.Module):
    """A classifier of transformers whose last layer computes the first token alone.

    The classifier reads no other, so an engine saves a seventh of the work. B batch, T tokens,
    D hidden size, H heads, C labels.

    Args:
        classifier: a `BertForSequenceClassification`.
    """

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Returns the logits, [B, C].

        Args:
            input_ids: of the tokens, [B, T].
            attention_mask: 1 where a token is, [B, T].
        """
        bert: Any = self.classifier.bert
        states = bert.embeddings(input_ids)  # [B, T, D]
        bias = (1.0 - attention_mask.float())[:, None, None, :] * _HIDDEN  # [B, 1, 1, T]
        *_, last = bert.encoder.layer
        for layer in bert.encoder.layer:
            asking = states[:, :1] if layer is last else states
            attention = layer.attention.self

            def heads(projected: Tensor, count: int = attention.num_attention_heads) -> Tensor:
                return torch.unflatten(projected, -1, (count, -1)).transpose(
                    1, 2
                )  # [B, H, T, D / H]

            found = scaled_dot_product_attention(
                heads(attention.query(asking)),
                heads(attention.key(states)),
                heads(attention.value(states)),
                attn_mask=bias,
            )
            found = found.transpose(1, 2).flatten(2)  # [B, T, D]
            states = layer.attention.output(found, asking)
            states = layer.output(layer.intermediate(states), states)
        classify: Any = self.classifier.classifier
        logits: Tensor = classify(bert.pooler(states))
        return logits


def read_network(checkpoint: Path) -> Network:
    """Reads the network of a checkpoint, in float32.

    Args:
        checkpoint: a folder in the Hugging Face layout.
    """
    classifier = AutoModelForSequenceClassification.from_pretrained(checkpoint, dtype=torch.float32)
    return Network(classifier).eval()


def example() -> tuple[Tensor, Tensor]:
    """Returns ids and a mask to trace the network with: two texts, one of them padded, [2, 7]."""
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    return torch.ones_like(mask), mask
