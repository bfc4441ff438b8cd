"""Weights that are 16 bits wide between uses, and float32 while they are used."""

import threading

import pytest
import torch

from model.network.encoder import EncoderClassifier
from model.network.shared_weights import SharedWeights
from tests.builders import tiny_network

NARROW = {torch.float16, torch.bfloat16}


def rounded(dtype: torch.dtype) -> EncoderClassifier:
    """A float32 network whose weights a file holds in another type."""
    return tiny_network().to(dtype).float().eval().requires_grad_(requires_grad=False)


def kinds(network: EncoderClassifier) -> set[torch.dtype]:
    layers = [module for module in network.layers.modules() if isinstance(module, torch.nn.Linear)]
    return {layer.weight.dtype for layer in layers}


def wait_until_dropped(weights: SharedWeights) -> None:
    timer = weights._timer
    if timer is not None:
        timer.join(30)
    assert weights._wide is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_lent_is_the_network_to_the_bit(dtype: torch.dtype) -> None:
    expected = rounded(dtype).state_dict()
    network = rounded(dtype)
    shared = SharedWeights(network, compact=True)

    assert kinds(network) <= NARROW
    assert shared._wide is None
    with shared.use() as wide:
        found = wide.state_dict()
        assert shared._wide is not None
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert {weight.dtype for weight in found.values()} == {torch.float32}
    assert kinds(network) <= NARROW


def test_weights_that_16_bits_would_change_stay() -> None:
    network = tiny_network()
    shared = SharedWeights(network, compact=True)

    assert kinds(network) == {torch.float32}
    assert network.embeddings.tokens.weight.dtype == torch.float32
    with shared.use() as lent:
        assert lent is network
    assert shared._wide is not None


def test_a_network_that_serves_too_is_left_as_it_is() -> None:
    network = rounded(torch.float16)
    shared = SharedWeights(network, compact=False)
    shared.release()
    assert shared._wide is not None
    with shared.use() as lent:
        assert lent is network
    assert kinds(network) == {torch.float32}


def test_wide_weights_go_after_the_last_use() -> None:
    shared = SharedWeights(rounded(torch.float16), compact=True, linger_seconds=0.0)
    with shared.use() as first:
        with shared.use() as second:
            assert second is first
        assert shared._wide is not None
    wait_until_dropped(shared)
    with shared.use():
        assert shared._wide is not None


def test_wide_weights_go_at_once_when_released() -> None:
    shared = SharedWeights(rounded(torch.float16), compact=True, linger_seconds=3600.0)
    with shared.use() as first:
        shared.release()
        assert shared._wide is not None
    with shared.use() as again:
        assert again is first
    del again
    shared.release()
    assert shared._wide is None
    with shared.use() as second:
        assert second is not first
        assert kinds(second) == {torch.float32}


def test_threads_get_the_same_network_until_none_uses_it() -> None:
    shared = SharedWeights(rounded(torch.float16), compact=True, linger_seconds=0.0)
    together = threading.Barrier(4)
    lent: list[object] = []

    def borrow() -> None:
        for _ in range(50):
            with shared.use() as network:
                assert kinds(network) == {torch.float32}  # type: ignore[arg-type]
        together.wait()
        with shared.use() as network:
            lent.append(network)
            together.wait()

    threads = [threading.Thread(target=borrow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(lent) == 4
    assert len(set(map(id, lent))) == 1
    wait_until_dropped(shared)
