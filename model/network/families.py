"""Names what differs between the kinds of encoders of transformers: heads, tables, names.

DistilBERT (Sanh et al. 2019) has no segments, and a ReLU in its head. RoBERTa (Liu et al. 2019) and
XLM-RoBERTa (Conneau et al. 2020) count positions from the id of their padding.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

KindName = Literal["bert", "distilbert", "roberta", "xlm-roberta"]
Pooling = Literal["tanh", "relu"]  # the function between the two linear layers of the head

_OUR_LAYER = re.compile(r"layers\.(\d+)\.(.+)")
# Our names within a layer, those of BERT and of DistilBERT.
_LAYER_NAMES = (
    ("attention.query.", "attention.self.query.", "attention.q_lin."),
    ("attention.key.", "attention.self.key.", "attention.k_lin."),
    ("attention.value.", "attention.self.value.", "attention.v_lin."),
    ("attention.output.", "attention.output.dense.", "attention.out_lin."),
    ("attention_norm.", "attention.output.LayerNorm.", "sa_layer_norm."),
    ("intermediate.", "intermediate.dense.", "ffn.lin1."),
    ("output.", "output.dense.", "ffn.lin2."),
    ("output_norm.", "output.LayerNorm.", "output_layer_norm."),
)
_EMBEDDINGS = {
    "embeddings.tokens.": "embeddings.word_embeddings.",
    "embeddings.positions.": "embeddings.position_embeddings.",
    "embeddings.types.": "embeddings.token_type_embeddings.",
    "embeddings.norm.": "embeddings.LayerNorm.",
}
# Older releases of transformers stored these constants beside the weights.
_CONSTANTS = ("embeddings.position_ids", "embeddings.token_type_ids")
_DISTILBERT_SIZES = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "classifier_dropout": "seq_classif_dropout",
}
# What a file holds under other names, such as `lm_head.`, is no part of a classifier.
_HEADS = ("classifier.", "pre_classifier.")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of encoder."""

    name: KindName
    architecture: str
    prefix: str
    layers: str
    layer_names: Mapping[str, str]  # our prefix of a name within a layer, and theirs
    head_names: Mapping[str, str]  # our prefix of a name of the head, and theirs from the start
    pooling: Pooling = "tanh"
    has_segments: bool = True
    counts_from_padding: bool = False  # the first position is one more than the id of padding
    # Names of `config.json` by those of BERT, where they differ; what a file that does not say it
    # means, if not what BERT's does; and what no file says.
    fields: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = _CONSTANTS  # ends of names of weights that nothing reads

    def stored_name(self, name: str) -> str:
        """Maps our name of an encoder's parameter to its name in the weights file, or KeyError."""
        in_layer = _OUR_LAYER.fullmatch(name)
        if in_layer is not None:
            own = _rename(in_layer[2], self.layer_names)
            return f"{self.prefix}{self.layers}.{in_layer[1]}.{own}"
        if name.startswith("embeddings."):
            return self.prefix + _rename(name, _EMBEDDINGS)
        return _rename(name, self.head_names)

    def has_place(self, name: str) -> bool:
        """Whether only a part of this network can have a weight of this name."""
        is_ours = name.startswith((self.prefix, *_HEADS))
        return is_ours and not name.endswith(self.unused)

    def read(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the content of a `config.json` under the names of BERT."""
        named = {ours: content[theirs] for ours, theirs in self.fields.items() if theirs in content}
        rest = {key: value for key, value in content.items() if key not in self.fields}
        return {**self.defaults, **rest, **named, **self.fixed}

    def write(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Returns sizes under the names of this kind's `config.json`, without what it fixes."""
        return {
            self.fields.get(key, key): value
            for key, value in content.items()
            if key not in self.fixed
        }


def _rename(name: str, table: Mapping[str, str]) -> str:
    for ours, theirs in table.items():
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    raise KeyError(name)


BERT = Kind(
    name="bert",
    architecture="BertForSequenceClassification",
    prefix="bert.",
    layers="encoder.layer",
    layer_names={ours: berts for ours, berts, _ in _LAYER_NAMES},
    head_names={"pooler.": "bert.pooler.dense.", "classifier.": "classifier."},
)
_ROBERTA = replace(
    BERT,
    name="roberta",
    architecture="RobertaForSequenceClassification",
    prefix="roberta.",
    head_names={"pooler.": "classifier.dense.", "classifier.": "classifier.out_proj."},
    counts_from_padding=True,
    defaults={"pad_token_id": 1},
    # Of the pretrained network; many classifiers still carry it along.
    unused=(*_CONSTANTS, "pooler.dense.weight", "pooler.dense.bias"),
)
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        BERT,
        Kind(
            name="distilbert",
            architecture="DistilBertForSequenceClassification",
            prefix="distilbert.",
            layers="transformer.layer",
            layer_names={ours: distilberts for ours, _, distilberts in _LAYER_NAMES},
            head_names={"pooler.": "pre_classifier.", "classifier.": "classifier."},
            pooling="relu",
            has_segments=False,
            fields=_DISTILBERT_SIZES,
            # What transformers assumes where the file does not say it.
            defaults={"classifier_dropout": 0.2},
            fixed={"type_vocab_size": 0, "layer_norm_eps": 1e-12},
        ),
        _ROBERTA,
        replace(_ROBERTA, name="xlm-roberta", architecture="XLMRobertaForSequenceClassification"),
    )
}
