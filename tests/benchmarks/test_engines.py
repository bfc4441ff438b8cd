"""The real engines of the peers, where their packages are installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.peers.batching import padded
from benchmarks.peers.export_network import Network, example, read_network
from tests.builders import tiny_checkpoint

TEXTS = [[3, 4, 5, 6], [3, 7], [5, 3, 9]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("engines") / "tiny")


@pytest.fixture(scope="module")
def network(checkpoint: Path) -> Network:
    return read_network(checkpoint)


def expected(network: Network) -> np.ndarray:
    """The logits of the whole network of transformers, each text alone."""
    with torch.inference_mode():
        rows = [network.classifier(torch.tensor([text])).logits[0].numpy() for text in TEXTS]
    return np.stack(rows)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_exported_network_answers_as_that_of_transformers(network: Network) -> None:
    ids, mask = padded(TEXTS)
    with torch.inference_mode():
        found = network(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()

    np.testing.assert_allclose(found, expected(network), atol=1e-5)


def test_the_example_has_padding() -> None:
    ids, mask = example()

    assert ids.shape == mask.shape == (2, 7)
    assert mask.sum(dim=1).tolist() == [7, 5]


@pytest.mark.skipif(
    not (importlib.util.find_spec("openvino") and importlib.util.find_spec("nncf")),
    reason="openvino and nncf are not installed: use build/peers/openvino",
)
def test_openvino_answers_as_transformers(
    checkpoint: Path, network: Network, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from benchmarks.peers import exported
    from benchmarks.peers.openvino_app import OpenVinoEngine

    monkeypatch.setattr(exported.exported, "__kwdefaults__", {"folder": tmp_path})
    engine = OpenVinoEngine(checkpoint, precision="bf16", lanes=2)
    ids, mask = padded(TEXTS)

    for alone in (False, True):
        found = engine.run(ids, mask, lane=1, alone=alone)
        np.testing.assert_allclose(found, expected(network), atol=0.02)


@pytest.mark.skipif(
    not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
    reason="onnxruntime and onnx are not installed: use build/peers/onnxruntime",
)
def test_onnx_runtime_answers_as_transformers(
    checkpoint: Path, network: Network, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from benchmarks.peers import exported
    from benchmarks.peers.onnxruntime_app import OnnxRuntimeEngine

    monkeypatch.setattr(exported.exported, "__kwdefaults__", {"folder": tmp_path})
    engine = OnnxRuntimeEngine(checkpoint, lanes=2)
    ids, mask = padded(TEXTS)

    for alone in (False, True):
        found = engine.run(ids, mask, lane=1, alone=alone)
        np.testing.assert_allclose(found, expected(network), atol=0.05)
