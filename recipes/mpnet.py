"""Loads transformers' MPNet, the larger network that teaches, and puts a classifier on it.

Song et al. 2020, "MPNet: masked and permuted pre-training for language understanding".

Legend: B batch, T tokens, D hidden size, C classes.
"""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from model.errors import CheckpointError
from model.files import CONFIG, WEIGHTS, read_object
from model.types import Batch, ClassifierOutput

FIRST_POSITION = 2  # of a text; the embedding's rows before it are for padding
_INITIALIZER_RANGE = 0.02


class MPNetClassifier(nn.Module):
    """MPNet, the mean of its tokens, and a linear map.

    The sentence embeddings that a teacher begins with were trained as such means.
    """

    def __init__(
        self, mpnet: nn.Module, *, hidden_size: int, num_labels: int, dropout: float
    ) -> None:
        super().__init__()
        self.mpnet = mpnet
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden_size, num_labels)

    def forward(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        """Classifies a batch: logits, float32 [B, C], and no attention weights."""
        if need_weights:
            raise NotImplementedError("a teacher gives no attention weights")
        input_ids, padding = batch.input_ids, batch.key_padding_mask
        end = FIRST_POSITION + input_ids.shape[1]
        positions = torch.arange(FIRST_POSITION, end, device=input_ids.device)  # [T]
        if padding is None:
            padding = torch.zeros_like(input_ids, dtype=torch.bool)
        padding = padding.unsqueeze(-1)  # [B, T, 1]
        scores = torch.zeros(padding.shape, device=padding.device).masked_fill(padding, -math.inf)
        states = self.mpnet(
            input_ids,
            # Added to the scores as it is. A mask [B, T] would be read on the host.
            attention_mask=scores[:, None].transpose(2, 3),  # [B, 1, 1, T]
            position_ids=positions.expand_as(input_ids),
        ).last_hidden_state.masked_fill(padding, 0.0)  # [B, T, D]
        mean = states.sum(dim=1) / (~padding).sum(dim=1)  # [B, D]
        logits: Tensor = self.classifier(self.dropout(mean)).float()  # [B, C]
        return ClassifierOutput(logits, ())


def load_mpnet(
    folder: Path, *, num_labels: int, dropout: float, attention_dropout: float, seed: int
) -> MPNetClassifier:
    """Loads a pretrained MPNet from a transformers folder, and draws a fresh classifier.

    Raises:
        CheckpointError: a file or a weight is missing, or the network is not MPNet.
        ModuleNotFoundError: transformers is not installed.
    """
    from transformers import MPNetModel

    content = read_object(folder / CONFIG)
    if content.get("model_type") != "mpnet":
        raise CheckpointError(
            folder / CONFIG, f"model_type is {content.get('model_type')!r}, must be 'mpnet'"
        )
    loaded: Any = MPNetModel.from_pretrained(
        folder,
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
        add_pooling_layer=False,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
    )
    mpnet, report = loaded
    if missing := sorted(report["missing_keys"]):
        raise CheckpointError(folder / WEIGHTS, f"lacks {', '.join(missing[:3])}")
    size = mpnet.config.hidden_size
    network = MPNetClassifier(mpnet, hidden_size=size, num_labels=num_labels, dropout=dropout)
    generator = torch.Generator().manual_seed(seed)
    nn.init.normal_(network.classifier.weight, std=_INITIALIZER_RANGE, generator=generator)
    nn.init.zeros_(network.classifier.bias)
    return network
