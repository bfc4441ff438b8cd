"""Small folders as transformers saves them: a classifier of each kind with a trained tokenizer."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests.builders import VOCABULARY

FAMILIES = ("distilbert", "roberta", "xlm-roberta")
LABELS = ("negative", "neutral", "positive")
MAX_LENGTH = 24
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
CORPUS = [
    "The plot drags, but the cast is superb.",
    "A warm, funny and very good film 👍🏿 café naïve!",
    "Ein schöner Film, aber zu lang.",
    "电影很好看。 中文 映画は素晴らしい",
    "Фильм скучный и слабый",
    "It's not bad: 10 / 10, don't miss it 🎬🏳️‍🌈",
] * 4
TEXTS = [
    "The plot drags, but the cast is superb.",
    "  Café 中文 🎬 İstanbul\u200b\u3000x  e\u0301\u0327 ﬁn ㌀ ﷺ",
    "👍🏿🏳️‍🌈 don't",
    "don't miss this film " * 12,
    "电影很好看" * 20,
    "a",
    "x <s> </s> <pad>y<mask> \uff1cs\uff1e [SEP]",
    "\u1112\u1161\u11ab \ud55c \u0645\u0631\u062d\u0628\u0627 \U0001d518\U00020000",
]
_SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
_DISTILBERT_SIZES: dict[str, Any] = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}


def save_family(
    folder: Path, kind: str, *, labels: tuple[str, ...] = LABELS, seed: int = 0, **changes: object
) -> Path:
    """Saves a classifier with weights wide enough to tell texts apart, and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer_of(kind).save_pretrained(folder)
    torch.manual_seed(seed)
    common: dict[str, Any] = {
        "initializer_range": 0.4,
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
        **changes,
    }
    if kind == "distilbert":
        config: Any = transformers.DistilBertConfig(
            vocab_size=len(VOCABULARY),
            max_position_embeddings=MAX_LENGTH,
            **{**_DISTILBERT_SIZES, **common},
        )
        network = transformers.DistilBertForSequenceClassification(config)
    else:
        of_config, of_network = {
            "roberta": (transformers.RobertaConfig, transformers.RobertaForSequenceClassification),
            "xlm-roberta": (
                transformers.XLMRobertaConfig,
                transformers.XLMRobertaForSequenceClassification,
            ),
        }[kind]
        config = of_config(
            vocab_size=400,
            max_position_embeddings=MAX_LENGTH + 2,
            type_vocab_size=1,
            layer_norm_eps=1e-5,
            **{**_SIZES, **common},
        )
        network = of_network(config)
    # Fresh biases and scales are 0 and 1, which would hide an exchange.
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            assert parameter.isfinite().all(), name
    network.save_pretrained(folder)
    return folder


def tokenizer_of(kind: str, *, max_length: int = MAX_LENGTH) -> Any:  # noqa: ANN401
    """A tokenizer of transformers, trained on a few sentences."""
    if kind == "distilbert":
        vocabulary = {token: index for index, token in enumerate(VOCABULARY)}
        return transformers.BertTokenizer(vocab=vocabulary, model_max_length=max_length)
    if kind == "roberta":
        pairs = _trained("BPE")
        merges: Any = [tuple(pair) for pair in pairs["merges"]]  # transformers' type is too narrow
        return transformers.RobertaTokenizer(
            vocab=pairs["vocab"], merges=merges, model_max_length=max_length
        )
    pieces = [tuple(piece) for piece in _trained("Unigram")["vocab"]]
    return transformers.XLMRobertaTokenizer(vocab=pieces, model_max_length=max_length)


@cache
def _trained(model: str) -> dict[str, Any]:
    """A byte-level BPE, or the pieces of a Unigram."""
    if model == "BPE":
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer: Any = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=list(SPECIALS),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
    else:
        backend = Tokenizer(models.Unigram())
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=110, special_tokens=list(SPECIALS), unk_token="<unk>", show_progress=False
        )
    backend.train_from_iterator(CORPUS, trainer)
    content: dict[str, Any] = json.loads(backend.to_str())["model"]
    return content
