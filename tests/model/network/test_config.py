"""Which `config.json` is read, and which is refused why."""

import json
from typing import Any

import pytest
from transformers import BertConfig

from model.network.config import EncoderConfig
from tests.builders import tiny_config
from tests.matching import exactly
from tests.model.folders import faults

KINDS = "'bert', 'distilbert', 'roberta', 'xlm-roberta'"
ONE = "a network with one output is a regression, which has no classes to choose from"
CONTENT: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 100,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


def test_what_transformers_leaves_out_has_its_defaults() -> None:
    found = EncoderConfig.from_json(CONTENT).model_dump()
    assert (found.pop("kind"), found.pop("labels")) == ("bert", ("LABEL_0", "LABEL_1"))
    theirs = BertConfig(**CONTENT).to_dict()
    assert found == {name: theirs[name] for name in found}
    three = EncoderConfig.from_json({**CONTENT, "num_labels": 3})
    assert three.labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_written_and_read_is_the_same() -> None:
    config = tiny_config(
        num_hidden_layers=3,
        max_position_embeddings=100,
        hidden_act="silu",
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.3,
        classifier_dropout=0.4,
        layer_norm_eps=1e-5,
        pad_token_id=3,
        labels=[f"class {number}" for number in range(12)],
    )
    assert EncoderConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "albert"}, f"model_type is 'albert', only {KINDS} can be loaded"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'relative_key', only 'absolute' can be loaded",
        ),
        ({"is_decoder": True}, "the network is a decoder, only encoders can be loaded"),
        (
            {"problem_type": "multi_label_classification"},
            "problem_type is 'multi_label_classification', only 'single_label_classification' "
            "can be loaded",
        ),
        ({"num_labels": 1}, "num_labels is 1, must be from 2 to 100000"),
        ({"id2label": ["a", "b"]}, "id2label must be an object of class numbers to names"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label must name the classes 0 to 1, each once"),
        ({"id2label": {"0": "a"}}, f"id2label must name at least 2 classes, names 1: {ONE}"),
    ],
)
def test_networks_of_another_kind_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        EncoderConfig.from_json({**CONTENT, **changes})


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"vocab_size": 0}, "vocab_size", "Input should be greater than or equal to 1"),
        (
            {"layer_norm_eps": 0.0},
            "layer_norm_eps",
            "Input should be greater than or equal to 0.000000000000001",
        ),
        ({"layer_norm_eps": 0.011}, "layer_norm_eps", "Input should be less than or equal to 0.01"),
        (
            {"num_attention_heads": 3},
            "",
            "hidden_size (8) is not divisible by num_attention_heads (3)",
        ),
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "", "labels must differ, got a, b, a"),
        ({"pad_token_id": 100}, "", "pad_token_id (100) must be below vocab_size (100)"),
    ],
)
def test_a_wrong_value_is_refused(changes: dict[str, Any], place: str, message: str) -> None:
    ((found_place, found),) = faults(EncoderConfig.from_json, {**CONTENT, **changes})
    assert (found_place, found.removeprefix("Value error, ")) == (place, message)
