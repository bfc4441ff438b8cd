"""Steps of one head: against the reference in NumPy, `explain`, and themselves multiplied out."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model.backends.eager import collate
from model.checkpoint.opening import open_checkpoint
from model.errors import NotFiniteError
from model.explain.attention_steps import HeadSteps
from model.explain.interventions import Head, leave_out, switch_off
from model.loading import load_predictor
from model.network.attention import MultiHeadAttention
from model.predictor import Predictor
from model.types import Encoding
from tests.builders import tiny_checkpoint, tiny_conv_checkpoint, tiny_network
from tests.matching import exactly

TEXTS = ["bad", "The plot is slow, but!"]
KINDS = ["encoder", "conv", "conv without a mask"]
CLOSE = 1e-5
NUMBERS = ("query_vector", "keys", "scores", "weights", "values", "result")


def load(folder: Path, dtype: str = "float32") -> Predictor:
    return load_predictor(open_checkpoint(folder), device="cpu", dtype=dtype)


@pytest.fixture(scope="module", params=KINDS)
def predictor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Predictor:
    path = tmp_path_factory.mktemp("steps") / "tiny"
    if request.param == "encoder":
        return load(tiny_checkpoint(path))
    return load(tiny_conv_checkpoint(path, mask_padding=request.param == "conv"))


def assert_multiplied_out(found: HeadSteps) -> None:
    """Each step follows from the one before it."""
    query, keys, values = (
        each.astype(np.float64) for each in (found.query_vector, found.keys, found.values)
    )
    assert found.scale == pytest.approx(1 / np.sqrt(len(query)))
    scores = (keys * query).sum(axis=1) * found.scale
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=CLOSE)
    exponentials = np.exp(scores - scores.max())
    weights = exponentials / exponentials.sum()
    np.testing.assert_allclose(found.weights, weights, rtol=0, atol=CLOSE)
    result = (weights[:, None] * values).sum(axis=0)
    np.testing.assert_allclose(found.result, result, rtol=0, atol=CLOSE)


def projections(
    predictor: Predictor, encoding: Encoding, layer: int
) -> dict[str, NDArray[np.float32]]:
    """What the modules of a layer make of a text, [T, H * D] each, as hooks see it."""
    seen: dict[str, NDArray[np.float32]] = {}
    with predictor._runner.network.use() as network, torch.no_grad():
        attention = [each for each in network.modules() if isinstance(each, MultiHeadAttention)][
            layer
        ]
        parts = {"query_vector": attention.query, "keys": attention.key, "values": attention.value}
        hooks = [
            part.register_forward_hook(
                lambda _, __, output, name=name: seen.update({name: output[0].numpy()})
            )
            for name, part in parts.items()
        ]
        network(collate([encoding], pad_token_id=0), need_weights=True)
        for hook in hooks:
            hook.remove()
    return seen


@pytest.mark.parametrize("text", TEXTS)
def test_every_step_leads_to_the_weights_of_an_explanation(predictor: Predictor, text: str) -> None:
    encoding = predictor.encode(text, with_tokens=True)
    attention = predictor.explain(encoding).attention
    length = len(encoding.input_ids)
    for layer, head, query in np.ndindex(*attention.shape[:3]):
        found = predictor.inspector.steps(encoding, layer=layer, head=head, query=query)
        assert (found.layer, found.head, found.query) == (layer, head, query)
        assert found.keys.shape == found.values.shape == (length, len(found.result))
        numbers = {name: getattr(found, name) for name in NUMBERS}
        assert {number.dtype for number in numbers.values()} == {np.dtype(np.float32)}
        size = sum(number.size for number in numbers.values())
        assert predictor.inspector.count_numbers(length) == size
        assert_multiplied_out(found)
        projected = projections(predictor, encoding, layer)
        columns = slice(head * len(found.result), (head + 1) * len(found.result))
        rows = {"query_vector": query, "keys": slice(length), "values": slice(length)}
        for name, at in rows.items():
            np.testing.assert_allclose(numbers[name], projected[name][at, columns], atol=CLOSE)
        row = attention[layer, head, query]
        np.testing.assert_allclose(found.weights, row, rtol=0, atol=CLOSE)


def test_changes_of_the_text_reach_the_steps(tmp_path: Path) -> None:
    predictor = load(tiny_checkpoint(tmp_path / "tiny"))
    encoding = predictor.encode(TEXTS[-1], with_tokens=True)
    off = switch_off(encoding, [Head(0, 1)], num_layers=2, num_heads=2)
    for changed in (off, leave_out(encoding, [2])):
        found = predictor.inspector.steps(changed, layer=1, head=0, query=1)
        row = predictor.explain(changed).attention[1, 0, 1]
        np.testing.assert_allclose(found.weights, row, rtol=0, atol=CLOSE)
        before = predictor.inspector.steps(encoding, layer=1, head=0, query=1)
        assert not np.allclose(found.query_vector, before.query_vector, atol=1e-3)
    # A head that is switched off still has steps of its own.
    its = predictor.inspector.steps(off, layer=0, head=1, query=1)
    np.testing.assert_array_equal(
        its.result, predictor.inspector.steps(encoding, layer=0, head=1, query=1).result
    )


def test_a_token_that_is_not_there_is_named(predictor: Predictor) -> None:
    encoding = predictor.encode("bad", with_tokens=True)
    count = len(encoding.input_ids)
    message = exactly(f"token {count} does not exist: the text has 0 to {count - 1}")
    with pytest.raises(IndexError, match=message):
        predictor.inspector.steps(encoding, layer=0, head=0, query=count)


def test_a_network_that_overflows_says_so(tmp_path: Path) -> None:
    network = tiny_network()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in {"layers.0.attention.query.bias", "layers.0.attention.key.bias"}:
                parameter.fill_(3e38)
    inspector = load(tiny_checkpoint(tmp_path / "tiny", network=network)).inspector
    with pytest.raises(NotFiniteError, match=r"^steps of a head of 1 of 1 texts are not finite"):
        inspector.steps(Encoding([2, 7, 3], truncated=False), layer=0, head=0, query=0)
