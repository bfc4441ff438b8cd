"""What a run begins with: fresh weights, or those of a pretrained folder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, PreTrainedModel

from model.errors import CheckpointError
from model.files import WEIGHTS, digest
from model.network.config import EncoderConfig
from model.network.encoder import EncoderClassifier, build_encoder
from model.network.layers import EncoderLayer
from model.tokenization.tokenizer import Tokenizer
from model.types import Batch
from tests.builders import LABELS, MAX_LENGTH, tiny_checkpoint, tiny_config, tiny_tokenizer
from tests.matching import exactly
from tests.model.folders import edit
from training.errors import RecipeError
from training.fit.initial import InitialModel, init_from_pretrained, init_from_scratch
from training.fit.recipe import NetworkSizes, Recipe

SIZES = NetworkSizes(
    vocab_size=120,
    hidden_size=8,
    num_layers=3,
    num_heads=2,
    intermediate_size=12,
    initializer_range=0.05,
)
RECIPE = Recipe(max_length=16, dropout=0.25, attention_dropout=0.125, seed=7)
SCRATCH = RECIPE.model_copy(update={"network": SIZES})
TEXTS = ["a good film", "a bad film"] * 3
THREE = ("awful", "fair", "great")


def save(folder: Path, kind: type[PreTrainedModel]) -> Any:  # noqa: ANN401
    """A folder as transformers saves it, its weights wide enough to tell texts apart."""
    torch.manual_seed(0)
    content = {**tiny_config(labels=THREE).to_json(), "initializer_range": 0.5}
    theirs = kind(BertConfig(**content))
    theirs.save_pretrained(folder)
    theirs.train(mode=False)
    (folder / "tokenizer.json").write_text(tiny_tokenizer().to_json(), encoding="utf-8")
    return theirs


def batch(tokenizer: Tokenizer) -> Batch:
    encodings = [tokenizer.encode(text).input_ids for text in ("a good film", "the bad plot")]
    return Batch(torch.tensor(encodings), None)


def drawn(config: EncoderConfig, seed: int) -> dict[str, Tensor]:
    network = build_encoder(config)
    generator = torch.Generator().manual_seed(seed)
    network.initialize(std=config.initializer_range, generator=generator)
    return network.state_dict()


def encoder_of(start: InitialModel) -> EncoderClassifier:
    assert isinstance(start.network, EncoderClassifier)
    return start.network


def dropouts(start: InitialModel) -> list[float]:
    """Of embeddings, first sublayer, attention and classifier."""
    network = encoder_of(start)
    layer = network.layers[0]
    assert isinstance(layer, EncoderLayer)
    return [
        network.embeddings.dropout.p,
        layer.dropout.p,
        layer.attention.dropout,
        network.classifier_dropout.p,
    ]


def test_from_scratch_the_recipe_gives_the_sizes() -> None:
    start = init_from_scratch(SCRATCH, TEXTS, LABELS)

    assert start.config == EncoderConfig(
        vocab_size=start.tokenizer.vocab_size,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=16,
        type_vocab_size=1,
        hidden_dropout_prob=0.25,
        attention_probs_dropout_prob=0.125,
        initializer_range=0.05,
        pad_token_id=0,
        labels=LABELS,
    )
    weights = start.network.state_dict()
    assert float(weights["layers.1.output.weight"].std()) == pytest.approx(0.05, rel=0.2)
    assert start.tokenizer.token_id("film") is not None
    assert start.tokenizer.max_length == 16
    assert start.origin == {}
    assert dropouts(start) == [0.25, 0.25, 0.125, 0.25]


def test_a_recipe_without_sizes_needs_a_folder() -> None:
    message = (
        "this preset is for pretrained encoders and has no [network] sizes: give --init-from, or "
        "choose another preset"
    )
    with pytest.raises(RecipeError, match=exactly(message)):
        init_from_scratch(RECIPE, TEXTS, LABELS)


def test_a_classifier_of_the_same_classes_is_taken_with_its_head(tmp_path: Path) -> None:
    theirs = save(tmp_path, BertForSequenceClassification)
    edit(tmp_path / "config.json", id2label={"0": "a", "1": "B", "2": "c"})
    start = init_from_pretrained(RECIPE, tmp_path, ("a", "b", "c"))
    read = batch(start.tokenizer)
    with torch.no_grad():
        ours = start.network.eval()(read).logits
        torch.testing.assert_close(ours, theirs(read.input_ids).logits, rtol=0, atol=1e-5)
    assert start.config.labels == ("a", "b", "c")
    assert start.origin == {
        "init_from": tmp_path.name,
        "init_from_sha256": digest(tmp_path / WEIGHTS),
    }


@pytest.mark.parametrize(
    ("labels", "known"),
    [(("awful", "great"), {0: 0, 1: 2}), (("great", "mixed", "fair", "AWFUL"), {0: 2, 2: 1, 3: 0})],
)
def test_rows_of_the_classifier_come_along_by_the_names_of_labels(
    tmp_path: Path, labels: tuple[str, ...], known: dict[int, int]
) -> None:
    theirs = save(tmp_path, BertForSequenceClassification)
    with torch.no_grad():
        theirs.classifier.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    theirs.save_pretrained(tmp_path)
    start = init_from_pretrained(RECIPE, tmp_path, labels)
    assert isinstance(start.config, EncoderConfig)
    network, weights = encoder_of(start), drawn(start.config, seed=7)
    for name, stored in (("weight", theirs.classifier.weight), ("bias", theirs.classifier.bias)):
        found = getattr(network.classifier, name)
        for own in range(len(labels)):
            drawn_row = weights[f"classifier.{name}"][own]
            expected = stored[known[own]] if own in known else drawn_row
            assert torch.equal(found[own], expected)
    assert start.known == tuple(labels[own] for own in known)


def test_numbers_of_classes_say_nothing_of_their_names(tmp_path: Path) -> None:
    theirs = save(tmp_path, BertForSequenceClassification)
    edit(tmp_path / "config.json", id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})
    start = init_from_pretrained(RECIPE, tmp_path, ("a", "b", "c"))
    assert start.known == ()
    assert not torch.equal(encoder_of(start).classifier.weight, theirs.classifier.weight)


@pytest.mark.parametrize(
    ("kind", "fresh"),
    [
        (BertForSequenceClassification, {"classifier.weight"}),
        (BertForMaskedLM, {"classifier.weight", "pooler.weight"}),
    ],
)
def test_what_the_folder_lacks_is_drawn_by_the_seed(
    tmp_path: Path, kind: type[PreTrainedModel], fresh: set[str]
) -> None:
    theirs = save(tmp_path, kind)

    start = init_from_pretrained(RECIPE, tmp_path, LABELS)

    read = batch(start.tokenizer)
    with torch.no_grad():
        hidden = encoder_of(start).eval().embeddings(read.input_ids)
        for layer in encoder_of(start).layers:
            assert isinstance(layer, EncoderLayer)
            hidden = layer(hidden, bias=None, need_weights=False).hidden_states
        expected = theirs.bert(read.input_ids).last_hidden_state
    torch.testing.assert_close(hidden, expected, rtol=0, atol=1e-5)
    assert isinstance(start.config, EncoderConfig)
    weights = drawn(start.config, seed=7)
    assert fresh == {
        name
        for name, parameter in start.network.named_parameters()
        if parameter.ndim == 2 and torch.equal(parameter, weights[name])
    }
    assert start.network.classifier.weight.shape == (2, 8)


@pytest.mark.parametrize(("asked", "read"), [(16, 16), (100, MAX_LENGTH)])
def test_of_one_of_ours_no_more_is_read_than_it_has_positions_for(
    tmp_path: Path, asked: int, read: int
) -> None:
    folder = tiny_checkpoint(tmp_path / "ours", seed=3)
    recipe = RECIPE.model_copy(update={"max_length": asked})
    start = init_from_pretrained(recipe, folder, LABELS)
    assert start.tokenizer.max_length == read
    assert start.config == tiny_config(
        hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.125, classifier_dropout=0.25
    )
    assert start.config.length_limit == MAX_LENGTH
    assert start.tokenizer.to_json() == tiny_tokenizer().to_json()
    assert start.origin["init_from"] == "ours"
    assert dropouts(start) == [0.25, 0.25, 0.125, 0.25]


def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "ours")
    config = folder / "config.json"
    edit(config, hidden_size=9)
    message = f"{config}: hidden_size (9) is not divisible by num_attention_heads (2)"
    with pytest.raises(CheckpointError, match=exactly(message)):
        init_from_pretrained(RECIPE, folder, LABELS)
    edit(config, hidden_size=8, num_hidden_layers=3)
    with pytest.raises(CheckpointError, match=r"bert\.encoder\.layer\.2\.\S+ is missing, the "):
        init_from_pretrained(RECIPE, folder, LABELS)
