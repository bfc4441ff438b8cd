"""Transformers' own BERT with the weights of one of our networks."""

from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

from model.network.config import EncoderConfig
from model.network.encoder import EncoderClassifier
from model.network.families import BERT
from model.types import Batch


def bert_with_weights_of(
    network: EncoderClassifier, config: EncoderConfig
) -> BertForSequenceClassification:
    """A BERT in evaluation mode that returns attention weights."""
    theirs = BertForSequenceClassification(BertConfig(**config.to_json()))
    theirs.set_attn_implementation("eager")
    weights = {BERT.stored_name(name): parameter for name, parameter in network.named_parameters()}
    missing, surplus = theirs.load_state_dict(weights, strict=False)
    assert (missing, surplus) == ([], [])
    theirs.train(mode=False)
    return theirs


def ask(theirs: Any, batch: Batch) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:  # noqa: ANN401
    """Logits [B, C] and the weights of each layer [B, H, T, T]."""
    mask = batch.key_padding_mask
    attention_mask = torch.ones_like(batch.input_ids) if mask is None else (~mask).long()
    with torch.no_grad():
        output = theirs(
            input_ids=batch.input_ids, attention_mask=attention_mask, output_attentions=True
        )
    return output.logits, output.attentions
