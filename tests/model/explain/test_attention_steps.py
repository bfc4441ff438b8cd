"""Steps of one head: against the reference in NumPy, `explain`, and themselves multiplied out."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.checkpoint.opening import open_checkpoint
from model.errors import ConfigurationError, NotFiniteError
from model.explain.attention_steps import HeadInspector, HeadSteps
from model.explain.interventions import Head, leave_out, switch_off
from model.loading import load_predictor
from model.network.batch import collate
from model.network.reference import concatenate_heads, multi_head_attention, project, split_heads
from model.network.shared_weights import SharedWeights
from model.predictor import Predictor
from model.tokenization.tokenizer import Encoding
from tests.builders import tiny_checkpoint, tiny_config, tiny_conv_checkpoint, tiny_network
from tests.matching import exactly

CPU = torch.device("cpu")
TEXTS = ["A superb film.", "bad", "The plot is slow, but!"]
KINDS = ["encoder", "conv", "conv without a mask"]
CLOSE = 1e-5


def load(folder: Path, dtype: torch.dtype = torch.float32) -> Predictor:
    return load_predictor(open_checkpoint(folder), device=CPU, dtype=dtype)


@pytest.fixture(scope="module", params=KINDS)
def predictor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Predictor:
    """A loaded checkpoint of each kind of network."""
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


@pytest.mark.parametrize("text", TEXTS)
def test_every_step_leads_to_the_weights_of_an_explanation(predictor: Predictor, text: str) -> None:
    encoding = predictor.encode(text, with_tokens=True)
    attention = predictor.explain(encoding).attention
    length = len(encoding.input_ids)
    for layer in range(predictor.info.num_layers):
        for head in range(predictor.info.num_heads):
            for query in range(length):
                found = predictor.inspector.steps(encoding, layer=layer, head=head, query=query)
                assert found.encoding is encoding
                assert (found.layer, found.head, found.query) == (layer, head, query)
                assert found.keys.shape == found.values.shape == (length, len(found.result))
                assert found.query_vector.shape == (predictor.inspector.head_dim,)
                assert all(
                    getattr(found, name).dtype == np.float32
                    for name in ("query_vector", "keys", "scores", "weights", "values", "result")
                )
                assert_multiplied_out(found)
                row = attention[layer, head, query]
                np.testing.assert_allclose(found.weights, row, rtol=0, atol=CLOSE)


@settings(max_examples=30, deadline=None)
@given(
    head_dim=st.integers(1, 9),
    heads=st.integers(1, 4),
    layers=st.integers(1, 3),
    length=st.integers(1, 12),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_the_steps_are_those_of_the_reference(
    head_dim: int, heads: int, layers: int, length: int, seed: int, data: st.DataObject
) -> None:
    config = tiny_config(
        hidden_size=head_dim * heads, num_attention_heads=heads, num_hidden_layers=layers
    )
    network = tiny_network(config, seed=seed)
    inspector = HeadInspector(
        SharedWeights(network, compact=False),
        num_layers=layers,
        num_heads=heads,
        head_dim=head_dim,
        pad_token_id=0,
        device=CPU,
    )
    ids = data.draw(st.lists(st.integers(1, 40), min_size=length, max_size=length))
    encoding = Encoding(ids, truncated=False)
    layer, head, query = (data.draw(st.integers(0, count - 1)) for count in (layers, heads, length))
    found = inspector.steps(encoding, layer=layer, head=head, query=query)

    with torch.no_grad():
        states = network.embeddings(collate([encoding], pad_token_id=0).input_ids)
        for each in network.layers[:layer]:
            states = each(states, bias=None, need_weights=False).hidden_states
    prefix = f"layers.{layer}.attention."
    parameters = {
        name.removeprefix(prefix): tensor.detach().numpy().astype(np.float64)
        for name, tensor in network.named_parameters()
        if name.startswith(prefix)
    }
    inputs = states.numpy()
    _, attention = multi_head_attention(inputs, inputs, inputs, parameters, num_heads=heads)
    queries, keys, values = (
        split_heads(project(inputs, parameters, name), heads) for name in ("query", "key", "value")
    )
    joined = concatenate_heads(attention @ values)[0, query]
    place = slice(head * head_dim, (head + 1) * head_dim)
    for ours, theirs in (
        (found.query_vector, queries[0, head, query]),
        (found.keys, keys[0, head]),
        (found.values, values[0, head]),
        (found.weights, attention[0, head, query]),
        (found.result, joined[place]),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=CLOSE, atol=CLOSE)
    assert_multiplied_out(found)
    count = sum(
        np.size(each)
        for each in (found.query_vector, found.keys, found.scores, found.weights, found.values,
                     found.result)
    )  # fmt: skip
    assert inspector.count_numbers(length) == count


def test_changes_of_the_text_reach_the_steps(tmp_path: Path) -> None:
    predictor = load(tiny_checkpoint(tmp_path / "tiny"))
    encoding = predictor.encode(TEXTS[0], with_tokens=True)
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


def test_a_network_that_serves_in_bfloat16_has_steps_in_float32(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    exact, served = load(folder), load(folder, torch.bfloat16)
    encoding = exact.encode(TEXTS[2], with_tokens=True)
    ours, theirs = (
        each.inspector.steps(encoding, layer=1, head=1, query=3) for each in (exact, served)
    )
    np.testing.assert_array_equal(ours.keys, theirs.keys)
    np.testing.assert_array_equal(ours.weights, theirs.weights)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layer": 2}, "layer 2 does not exist: the model has 0 to 1"),
        ({"layer": -1}, "layer -1 does not exist: the model has 0 to 1"),
        ({"head": 2}, "head 2 does not exist: the model has 0 to 1"),
        ({"query": 3}, "token 3 does not exist: the text has 0 to 2"),
    ],
)
def test_what_does_not_exist_is_named(tmp_path: Path, wrong: dict[str, int], message: str) -> None:
    predictor = load(tiny_checkpoint(tmp_path / "tiny"))
    encoding = predictor.encode("bad", with_tokens=True)
    place = {"layer": 0, "head": 0, "query": 0} | wrong
    with pytest.raises(IndexError, match=exactly(message)):
        predictor.inspector.steps(encoding, **place)


def test_the_classifier_of_the_course_has_one_layer(tmp_path: Path) -> None:
    network = open_checkpoint(tiny_conv_checkpoint(tmp_path / "conv")).load_network()
    batch = collate([Encoding([1, 2], truncated=False)], pad_token_id=0)
    with pytest.raises(
        ConfigurationError, match=exactly("layer 1 does not exist: attention has 1 layers")
    ):
        network.attention_inputs(batch, 1)


def test_a_network_that_overflows_says_so() -> None:
    network = tiny_network()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in {"layers.0.attention.query.bias", "layers.0.attention.key.bias"}:
                parameter.fill_(3e38)
    inspector = HeadInspector(
        SharedWeights(network, compact=False),
        num_layers=2, num_heads=2, head_dim=4, pad_token_id=0, device=CPU,
    )  # fmt: skip
    with pytest.raises(NotFiniteError, match=r"^steps of a head of 1 of 1 texts are not finite"):
        inspector.steps(Encoding([2, 7, 3], truncated=False), layer=0, head=0, query=0)
