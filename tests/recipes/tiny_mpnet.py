"""The smallest MPNet, as transformers saves it."""

import json
from pathlib import Path

import torch
from transformers import MPNetConfig, MPNetModel

from tests.builders import VOCABULARY, tiny_tokenizer


def tiny_mpnet(seed: int = 0) -> MPNetModel:
    """Hidden size 8, 2 heads, 2 layers."""
    torch.manual_seed(seed)
    config = MPNetConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=40,
        pad_token_id=1,
        layer_norm_eps=1e-5,
        initializer_range=0.3,
    )
    network: MPNetModel = MPNetModel(config, add_pooling_layer=False)
    network.train(False)
    return network


def write_mpnet(folder: Path) -> Path:
    """Saves a tiny MPNet with a tokenizer, as transformers does; returns the folder."""
    tiny_mpnet().save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tiny_tokenizer().to_json(), encoding="utf-8")
    # MPNet pads with id 1, which is [UNK] here: in a tiny vocabulary it hurts nobody.
    options = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")
    return folder
