"""Defines the networks that `headlight-train compare` trains side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from model.network.architecture import Network
from model.network.conv_attention import ConvAttentionClassifier
from model.tokenization.tokenizer import Tokenizer
from training.data.dataset import Dataset
from training.data.vocabulary import train_word_tokenizer
from training.fit.initial import init_from_scratch
from training.fit.recipe import Recipe

_COURSE, _ENCODER = "course", "small"


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the compared networks."""

    title: str
    preset: str = _COURSE
    convolution: bool = True
    num_heads: int | None = 4  # of attention; None: no attention
    mask_padding: bool = True

    def begin(self, recipe: Recipe, training: Dataset) -> tuple[Network, Tokenizer]:
        """Draws fresh weights and trains a tokenizer."""
        sizes = recipe.conv_attention
        if sizes is None:
            start = init_from_scratch(recipe, training.texts, training.labels)
            return start.network, start.tokenizer
        network = ConvAttentionClassifier(
            vocab_size=sizes.vocab_size,
            embedding_size=sizes.embedding_size,
            num_filters=sizes.num_filters if self.convolution else None,
            kernel_size=sizes.kernel_size,
            num_heads=self.num_heads,
            head_dim=sizes.head_dim,
            max_length=recipe.max_length,
            mask_padding=self.mask_padding,
            num_labels=len(training.labels),
        )
        network.initialize(generator=torch.Generator().manual_seed(recipe.seed))
        tokenizer = train_word_tokenizer(
            training.texts,
            num_words=sizes.num_words,
            max_length=recipe.max_length,
            padded_length=None if self.mask_padding else recipe.max_length,
        )
        return network, tokenizer


VARIANTS: Mapping[str, Variant] = {
    "conv-four-heads": Variant("convolution, four heads (the course's)"),
    "conv-four-heads-unmasked": Variant(
        "convolution, four heads, padding attended to", mask_padding=False
    ),
    "conv-one-head": Variant("convolution, one head", num_heads=1),
    "conv-no-attention": Variant("convolution, no attention", num_heads=None),
    "four-heads": Variant("four heads, no convolution", convolution=False),
    "one-head": Variant("one head, no convolution", convolution=False, num_heads=1),
    "embedding-alone": Variant("neither", convolution=False, num_heads=None),
    "encoder": Variant("encoder from scratch (preset small)", preset=_ENCODER),
}
BASELINE = "tf-idf"  # of training.measure.tfidf, which is not a network
ALL = (*VARIANTS, BASELINE)
