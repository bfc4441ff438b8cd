"""A small encoder, and what its faster forms are compared with."""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from hypothesis import strategies as st
from torch import Tensor

from model.network.batch import Batch, collate
from model.network.classifier import ClassifierOutput
from model.network.encoder import EncoderClassifier, build_encoder
from model.tokenization.tokenizer import Encoding
from tests.builders import tiny_config

VOCAB_SIZE = 40
# On both sides of where panels, tiles and groups end, and where the rounding of sizes changes.
LONG = (15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 127, 128, 129)
# How far logits and weights may be from those of the network in float32.
TOLERANCES = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (0.05, 0.03), torch.int8: (0.1, 0.1)}

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6) | st.lists(
    st.integers(1, 12) | st.sampled_from(LONG), min_size=1, max_size=4
)


def network(**changes: object) -> EncoderClassifier:
    """A small network with weights large enough that all of them matter."""
    fields = {"vocab_size": VOCAB_SIZE, "max_position_embeddings": max(LONG), **changes}
    built = build_encoder(tiny_config(**fields))
    built.initialize(std=0.3, generator=torch.Generator().manual_seed(0))
    return built.eval()


@cache
def plain() -> EncoderClassifier:
    return network()


def batch_of(lengths: Sequence[int]) -> Batch:
    """Texts of some lengths, all different."""
    return collate(
        [
            Encoding([1 + (7 * row + place) % (VOCAB_SIZE - 1) for place in range(length)], False)
            for row, length in enumerate(lengths)
        ],
        pad_token_id=0,
    )


def cut(output: ClassifierOutput, lengths: Sequence[int]) -> list[Tensor]:
    """The weights of each layer and text, without what stands for no token."""
    return [
        layer[row, :, :length]
        for layer in output.attention_weights
        for row, length in enumerate(lengths)
    ]


def check(
    own: Callable[..., ClassifierOutput],
    other: EncoderClassifier,
    lengths: Sequence[int],
    dtype: torch.dtype,
) -> None:
    """Compares numbers with those of the network."""
    batch = batch_of(lengths)
    with torch.inference_mode():
        found, expected = (each(batch, need_weights=True) for each in (own, other))
        fused = own(batch)
    of_logits, of_weights = TOLERANCES[dtype]
    for output in (found, fused):
        torch.testing.assert_close(output.logits, expected.logits, atol=of_logits, rtol=1e-5)
    assert fused.attention_weights == ()
    pairs = list(zip(cut(found, lengths), cut(expected, lengths), strict=True))
    assert len(pairs) == len(other.layers) * len(lengths)
    for weights, others in pairs:
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights, others, atol=of_weights, rtol=1e-5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))


def check_copies(
    make: Callable[[EncoderClassifier], Callable[..., ClassifierOutput]],
) -> tuple[EncoderClassifier, Callable[..., ClassifierOutput]]:
    """Checks that projections are copied; returns the network and its faster form."""
    shared = network()
    own = make(shared)
    before = own(batch_of([3, 4])).logits
    with torch.no_grad():
        for name, parameter in shared.layers.named_parameters():
            if "intermediate" in name or "output." in name:
                parameter.zero_()
    assert torch.equal(own(batch_of([3, 4])).logits, before)
    return shared, own
