"""The weights file: names, shapes, types and finite numbers."""

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.checkpoint.weights import (
    check_weights,
    digest_weights,
    read_encoder_weights,
    read_weights,
    save_weights,
)
from model.errors import CheckpointError
from model.files import INDEX, WEIGHTS
from model.network.architecture import fill
from model.network.encoder import EncoderClassifier
from tests.builders import tiny_config, tiny_network
from tests.matching import exactly
from tests.model.folders import in_parts

Change = Callable[[dict[str, Tensor]], None]
CONFIG = tiny_config()
QUERY = "bert.encoder.layer.1.attention.self.query.weight"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_weights(path, tiny_network().state_dict(), dtype=torch.float32)
    return path


def load(path: Path, network: EncoderClassifier) -> None:
    fill(network, read_weights(path, CONFIG, digest_weights(path)))


def load_encoder(path: Path, network: EncoderClassifier) -> list[str]:
    fresh = {name: each.detach().numpy() for name, each in network.named_parameters()}
    weights, kept = read_encoder_weights(path, fresh)
    fill(network, weights)
    return kept


def change(path: Path, edit: Change) -> None:
    weights = load_file(path)
    edit(weights)
    save_file(weights, path)


def same(ours: EncoderClassifier, other: EncoderClassifier) -> bool:
    theirs = other.state_dict()
    return all(weight.equal(theirs[name]) for name, weight in ours.state_dict().items())


def with_old_names(weights: dict[str, Tensor]) -> None:
    for name in list(weights):
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old = old.replace("LayerNorm.bias", "LayerNorm.beta")
        weights[old] = weights.pop(name)


def nothing(_weights: dict[str, Tensor]) -> None:
    """Changes nothing."""


def constants(weights: dict[str, Tensor]) -> None:
    """Adds what old releases wrote too."""
    weights["bert.embeddings.position_ids"] = torch.arange(32).unsqueeze(0)
    weights["bert.embeddings.token_type_ids"] = torch.zeros(1, 32, dtype=torch.int64)


@pytest.mark.parametrize(
    ("edit", "dtype"),
    [(nothing, torch.float16), (constants, torch.bfloat16), (with_old_names, torch.float64)],
)
def test_saved_and_loaded_is_the_same(edit: Change, dtype: torch.dtype, path: Path) -> None:
    save_weights(path, tiny_network().state_dict(), dtype=dtype)
    assert {weight.dtype for weight in load_file(path).values()} == {dtype}
    change(path, edit)
    network = tiny_network(seed=1)
    load(path, network)
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}
    assert same(network, tiny_network().to(dtype).float())


def remove(*names: str) -> Change:
    def edit(weights: dict[str, Tensor]) -> None:
        for name in names:
            del weights[name]

    return edit


def replace(name: str, weight: Tensor) -> Change:
    def edit(weights: dict[str, Tensor]) -> None:
        weights[name] = weight

    return edit


def layer_2(weights: dict[str, Tensor]) -> None:
    for name in [name for name in weights if name.startswith("bert.encoder.layer.1.")]:
        weights[name.replace("layer.1", "layer.2")] = weights[name].clone()


LAYER = "bert.encoder.layer.2.attention.output."


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (
            remove("bert.pooler.dense.weight", "bert.pooler.dense.bias"),
            "lacks bert.pooler.dense.bias, bert.pooler.dense.weight, which config.json asks for",
        ),
        (
            layer_2,
            f"holds {LAYER}LayerNorm.bias, {LAYER}LayerNorm.weight, {LAYER}dense.bias and 13 more, "
            "which config.json has no place for",
        ),
        (
            replace(QUERY, torch.zeros(8, 4)),
            f"{QUERY} has shape (8, 4), config.json asks for (8, 8)",
        ),
        (
            replace(QUERY, torch.zeros(8, 8, dtype=torch.int8)),
            f"{QUERY} has type I8, must be one of BF16, F16, F32, F64",
        ),
    ],
)
def test_what_does_not_fit_is_refused(edit: Change, fault: str, path: Path) -> None:
    change(path, edit)
    with pytest.raises(CheckpointError, match=exactly(f"{path}: {fault}")):
        check_weights(path, CONFIG)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (float("nan"), torch.float32),
        (1e300, torch.float64),  # finite, but not in 32 bits
    ],
)
def test_numbers_that_are_not_finite_are_refused(
    value: float, dtype: torch.dtype, path: Path
) -> None:
    weight = torch.zeros(8, 8, dtype=dtype)
    weight[3, 4] = value
    change(path, replace(QUERY, weight))
    check_weights(path, CONFIG)  # reads no weights
    message = exactly(f"{path}: {QUERY} holds values that are not finite float32 numbers")
    with pytest.raises(CheckpointError, match=message):
        load(path, tiny_network())
    with pytest.raises(CheckpointError, match=message):
        load_encoder(path, tiny_network())


def test_weights_in_parts_are_those_of_one_file(path: Path, tmp_path: Path) -> None:
    apart = tmp_path / "apart" / WEIGHTS
    apart.parent.mkdir()
    first, second = in_parts(apart, load_file(path))
    network, encoder = tiny_network(seed=1), tiny_network(seed=2)
    check_weights(apart, CONFIG)
    load(apart, network)
    assert same(network, tiny_network())
    assert load_encoder(apart, encoder) == []
    assert same(encoder, tiny_network())
    joined = first.read_bytes() + second.read_bytes()
    assert digest_weights(apart) == hashlib.sha256(joined).hexdigest()
    second.unlink()
    with pytest.raises(CheckpointError, match=exactly(f"{second}: is missing")):
        check_weights(apart, CONFIG)


@pytest.mark.parametrize(
    ("places", "fault"),
    [
        ({}, "weight_map names None, must name files of the folder"),
        ({"a": "../b"}, "weight_map names '../b', must name files of the folder"),
        ({"a": "model-00001-of-00002.safetensors"}, "lacks bert.embeddings.LayerNorm.weight, "),
    ],
)
def test_an_index_that_does_not_fit_is_refused(places: object, fault: str, path: Path) -> None:
    in_parts(path, dict(sorted(load_file(path).items())), places=places)
    place = re.escape(f"{path.with_name(INDEX)}: {fault}")
    with pytest.raises(CheckpointError, match=f"^{place}"):
        check_weights(path, CONFIG)


def test_a_weight_in_two_parts_is_refused(path: Path) -> None:
    first, second = in_parts(path, load_file(path))
    shutil.copy(first, second)
    with pytest.raises(CheckpointError, match=f"^{second}: holds .*, as another name does$"):
        check_weights(path, CONFIG)


def test_weights_of_other_heads_are_named_and_not_read(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["cls.predictions.bias", "lm_head.decoder.weight", "loss.weight"]
    change(path, lambda weights: weights.update({name: torch.zeros(1) for name in names}))
    check_weights(path, CONFIG)
    (record,) = caplog.records
    assert record.getMessage() == "weights that no classifier has are not read"
    assert vars(record)["weights"] == ", ".join(names)


def test_a_pickle_is_never_read(tmp_path: Path) -> None:
    name = "pytorch_model-00001-of-00002.bin"
    (tmp_path / name).write_bytes(b"not even a pickle")
    path = tmp_path / "model.safetensors"
    message = (
        f"{path}: is missing; {name} is there, but nothing is unpickled here: save the "
        "model as safetensors"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        check_weights(path, CONFIG)


def expected_from_encoder(*fresh: str) -> EncoderClassifier:
    """A network of seed 0 but for its head, which has seed 1."""
    network, other = tiny_network(), tiny_network(seed=1).state_dict()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in fresh:
                parameter.copy_(other[name])
    return network


HEAD = ("classifier.weight", "classifier.bias")
POOLER = ("pooler.weight", "pooler.bias")


def plain_encoder(weights: dict[str, Tensor]) -> None:
    """As `BertModel` saves itself: no prefix, no classifier."""
    del weights["classifier.weight"], weights["classifier.bias"]
    for name in list(weights):
        weights[name.removeprefix("bert.")] = weights.pop(name)
    weights["embeddings.position_ids"] = torch.arange(32).unsqueeze(0)


def masked_language_model(weights: dict[str, Tensor]) -> None:
    """As the first BERT was published: no pooler, another head, old names."""
    for name in [*HEAD, "bert.pooler.dense.weight", "bert.pooler.dense.bias"]:
        del weights[name]
    weights["cls.predictions.bias"] = torch.zeros(97)
    with_old_names(weights)


@pytest.mark.parametrize(
    ("edit", "fresh"),
    [
        (nothing, ()),
        (plain_encoder, HEAD),
        (masked_language_model, (*POOLER, *HEAD)),
        (replace("classifier.weight", torch.zeros(5, 8)), ("classifier.weight",)),
    ],
)
def test_an_encoder_gives_what_it_has(edit: Change, fresh: tuple[str, ...], path: Path) -> None:
    change(path, edit)
    network = tiny_network(seed=1)
    assert tuple(load_encoder(path, network)) == fresh
    assert same(network, expected_from_encoder(*fresh))


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (remove(QUERY), f"{QUERY} is missing, the network needs (8, 8)"),
        (replace(QUERY, torch.zeros(4, 8)), f"{QUERY} has shape (4, 8), the network needs (8, 8)"),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused(edit: Change, fault: str, path: Path) -> None:
    change(path, edit)
    with pytest.raises(CheckpointError, match=exactly(f"{path}: {fault}")):
        load_encoder(path, tiny_network())
