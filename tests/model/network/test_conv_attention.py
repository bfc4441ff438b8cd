"""The classifier of the seed course: its sizes, its padding, its two forms."""

import math

import pytest
import torch
from torch import Tensor

from model import Batch, ConvAttentionClassifier, ConvAttentionConfig
from model.errors import ConfigurationError
from model.network.conv_attention import build_conv_attention
from tests.builders import tiny_conv_config, tiny_conv_network
from tests.matching import exactly


def ids(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [
        ({"num_heads": None}, 96_032 + 12_900 + 3_201),
        ({"num_filters": None, "num_heads": None}, 96_032 + 32 * 32 + 1),
        ({"num_heads": 1}, 96_032 + 12_900 + 4 * 100 * 128 + 3 * 128 + 100 + 3_201),
    ],
)
def test_parts_can_be_left_out(changes: dict[str, int | None], parameters: int) -> None:
    network = ConvAttentionClassifier(**changes)  # type: ignore[arg-type]
    assert count(network) == parameters
    output = network(Batch(ids([1, 2, 3]), None), need_weights=True)
    assert output.logits.shape == (1, 2)
    assert len(output.attention_weights) == (0 if changes["num_heads"] is None else 1)


def test_the_convolution_keeps_every_position_as_torch_does() -> None:
    network = tiny_conv_network()
    assert network.convolution is not None
    states = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match="same.*even kernel"):
        expected = torch.nn.functional.conv1d(
            states.transpose(1, 2),
            network.convolution.weight,
            network.convolution.bias,
            padding="same",
        )
    found = network._convolve(network.convolution, states)
    torch.testing.assert_close(found, expected.transpose(1, 2))


def test_the_same_alone_and_in_a_batch() -> None:
    network = tiny_conv_network()
    padding = torch.tensor([[False] * 5, [False, False, True, True, True]])
    with torch.no_grad():
        together = network(Batch(ids([1, 2, 3, 4, 5], [6, 7, 0, 0, 0]), padding), need_weights=True)
        alone = network(Batch(ids([6, 7]), None), need_weights=True)
    torch.testing.assert_close(together.logits[1:], alone.logits)
    torch.testing.assert_close(
        together.attention_weights[0][1:, :, :2, :2], alone.attention_weights[0]
    )


def test_the_form_of_the_course_attends_to_padding() -> None:
    network = tiny_conv_network(tiny_conv_config(mask_padding=False))
    whole = ids([1, 2, 3] + [0] * 5)
    with torch.no_grad():
        padded = network(Batch(whole, None), need_weights=True)
        short = network(Batch(ids([1, 2, 3]), torch.tensor([[False, False, True]])))
    (weights,) = padded.attention_weights
    assert weights.shape == (1, 2, 8, 8)
    assert weights[..., 3:].gt(0.0).all()
    torch.testing.assert_close(short.logits, padded.logits)


def test_fresh_weights_follow_from_the_seed() -> None:
    def draw(seed: int) -> dict[str, Tensor]:
        network = build_conv_attention(tiny_conv_config())
        network.initialize(generator=torch.Generator().manual_seed(seed))
        return network.state_dict()

    first, again, other = draw(0), draw(0), draw(1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["attention.query.weight"], other["attention.query.weight"])
    assert first["embedding.weight"][0].eq(0.0).all()
    assert first["embedding.weight"].abs().max() <= 0.05
    assert first["convolution.bias"].eq(0.0).all()
    glorot = math.sqrt(6 / (4 * 8 + 4 * 8))  # fans of 4 words of 8 features, to 8 filters
    assert 0.5 * glorot < first["convolution.weight"].abs().max() <= glorot


def test_only_the_attention_computes_in_bfloat16() -> None:
    network = tiny_conv_network()
    batch = Batch(ids([1, 2, 3]), None)
    with torch.no_grad():
        before = network(batch).logits
        network.compute_in(torch.bfloat16)
        output = network(batch, need_weights=True)
    assert network.attention is not None
    assert {weight.dtype for weight in network.attention.parameters()} == {torch.bfloat16}
    assert network.embedding.weight.dtype == network.classifier.weight.dtype == torch.float32
    assert output.logits.dtype == output.attention_weights[0].dtype == torch.float32
    torch.testing.assert_close(output.logits, before, rtol=0, atol=0.1)


@pytest.mark.parametrize("labels", [("a", "b"), ("a", "b", "c")])
def test_two_classes_share_a_unit_and_more_have_one_each(labels: tuple[str, ...]) -> None:
    network = tiny_conv_network(tiny_conv_config(labels=labels))
    with torch.no_grad():
        logits = network(Batch(ids([1, 2, 3], [4, 5, 6]), None)).logits
    assert network.classifier.out_features == (1 if len(labels) == 2 else 3)
    assert logits.shape == (2, len(labels))
    assert (logits[:, 0] == 0).all() == (len(labels) == 2)
    assert logits[:, 1:].abs().min() > 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=exactly("kernel_size must be at least 1, got 0")):
        ConvAttentionClassifier(kernel_size=0)
    with pytest.raises(ConfigurationError, match="num_labels must be at least 2, got 1"):
        ConvAttentionClassifier(num_labels=1)
    for labels in (("one",), ("a", "b", "a")):
        with pytest.raises(ValueError, match="labels must be 2 or more different names, got"):
            ConvAttentionConfig(labels=labels)
    message = exactly("a text of at most 8 words is read, got 9")
    with pytest.raises(ConfigurationError, match=message):
        tiny_conv_network()(Batch(torch.ones(1, 9, dtype=torch.int64), None))
