"""Heads that are switched off, and tokens that are left out."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model import Head, leave_out, switch_off
from model.backends.eager import collate
from model.backends.kernels import choose_set
from model.errors import NoSuchPartError
from model.network.encoder import EncoderClassifier
from model.network.layers import EncoderLayer
from model.types import ClassifierOutput, Encoding
from tests.builders import KernelNetwork, tiny_network, tiny_tokenizer
from tests.matching import exactly

LAYERS, HEADS = 2, 2
TOKENIZER = tiny_tokenizer()


@cache
def network() -> EncoderClassifier:
    return tiny_network()


def without(heads: Sequence[Head]) -> EncoderClassifier:
    """The network without these heads: nothing reads their columns."""
    cut = copy.deepcopy(network())
    for layer, head in {
        (one.layer, head)
        for one in heads
        for head in (range(HEADS) if one.head is None else [one.head])
    }:
        part = cut.layers[layer]
        assert isinstance(part, EncoderLayer)
        weight = part.attention.output.weight
        width = weight.shape[1] // HEADS
        with torch.no_grad():
            weight[:, head * width : (head + 1) * width] = 0.0
    return cut


@cache
def served(name: str) -> Callable[..., ClassifierOutput]:
    if name == "modules":
        return network()
    if choose_set("float32") is None:
        pytest.skip("this processor has no kernels of ours")
    return KernelNetwork(network())


heads = st.builds(Head, st.integers(0, LAYERS - 1), st.none() | st.integers(0, HEADS - 1))
texts = st.lists(st.tuples(st.integers(1, 80), st.lists(heads, max_size=3)), min_size=1, max_size=4)


@pytest.mark.parametrize("name", ["modules", "kernels"])
@settings(max_examples=30)
@given(texts=texts)
def test_a_head_that_is_off_gives_nothing_to_its_own_text_alone(
    name: str, texts: list[tuple[int, list[Head]]]
) -> None:
    encodings = [
        switch_off(
            Encoding([5 + (7 * row + at) % 40 for at in range(1 + length % 30)], False),
            off,
            num_layers=LAYERS,
            num_heads=HEADS,
        )
        for row, (length, off) in enumerate(texts)
    ]
    batch = collate(encodings, pad_token_id=0)
    with torch.inference_mode():
        fused, explicit = (served(name)(batch, need_weights=need) for need in (False, True))
    for row, (encoding, (_, off)) in enumerate(zip(encodings, texts, strict=True)):
        alone = collate([replace(encoding, head_mask=None)], pad_token_id=0)
        with torch.inference_mode():
            expected = without(off)(alone, need_weights=True)
        length = len(encoding.input_ids)
        weights = [layer[row, :, :length, :length] for layer in explicit.attention_weights]
        for found, wanted in [
            *((each.logits[row], expected.logits[0]) for each in (fused, explicit)),
            *zip(weights, (layer[0] for layer in expected.attention_weights), strict=True),
        ]:
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_heads_that_are_named_twice_or_not_there() -> None:
    encoding = TOKENIZER.encode("a good film")
    assert switch_off(encoding, [], num_layers=2, num_heads=2) is encoding
    off = switch_off(encoding, [Head(1, 0), Head(1), Head(1, 0)], num_layers=2, num_heads=2)
    assert off.head_mask == ((1.0, 1.0), (0.0, 0.0))
    with pytest.raises(IndexError, match=exactly("layer 2 does not exist: the model has 0 to 1")):
        switch_off(encoding, [Head(2)], num_layers=2, num_heads=2)
    with pytest.raises(IndexError, match=exactly("head -1 does not exist: the model has 0 to 1")):
        switch_off(encoding, [Head(0, -1)], num_layers=2, num_heads=2)


@given(st.data())
def test_a_token_that_is_left_out_is_as_if_it_had_never_been(data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(["good", "bad", "film", "dull"]), min_size=2))
    text = TOKENIZER.encode(" ".join(words), with_tokens=True)
    assert text.tokens is not None
    last = len(text.tokens) - 2
    gone = data.draw(st.sets(st.integers(1, last), max_size=last - 1))
    left = leave_out(text, sorted(gone))
    kept = [word for at, word in enumerate(words[:last], 1) if at not in gone]
    assert left.input_ids == TOKENIZER.encode(" ".join(kept)).input_ids
    assert left.tokens is not None
    assert [token for at, token in enumerate(text.tokens) if at not in gone] == list(left.tokens)


@pytest.mark.parametrize(
    ("indices", "place", "fault"),
    [
        ([1, 5], 1, "the text has tokens 0 to 4"),
        ([2, 0], 1, "token 0 is special and stays: the text's own are 1 to 3"),
        ([1, 2, 3], 0, "nothing of the text would be left: keep at least one token"),
    ],
)
def test_tokens_that_cannot_be_left_out(indices: list[int], place: int, fault: str) -> None:
    text = TOKENIZER.encode("a good film", with_tokens=True)
    with pytest.raises(NoSuchPartError, match=exactly(fault)) as caught:
        leave_out(text, indices)
    assert caught.value.position == place
    with pytest.raises(ValueError, match="encode with with_tokens=True"):
        leave_out(TOKENIZER.encode("a good film"), [1])
