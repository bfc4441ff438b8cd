"""Makes the network and tokenizer that a run begins with, fresh or pretrained."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from model.checkpoint.hub import name_of, origin_of
from model.checkpoint.weights import digest_weights, read_encoder_weights
from model.errors import CheckpointError, describe_faults
from model.files import CONFIG, MANIFEST, WEIGHTS, check_folder, read_object
from model.network.architecture import Network, fill
from model.network.config import ConvAttentionConfig, EncoderConfig, NetworkConfig
from model.network.conv_attention import build_conv_attention
from model.network.encoder import EncoderClassifier, build_encoder
from model.network.families import KINDS
from model.tokenization.reader import load_tokenizer
from model.tokenization.sandbox import try_tokenizer
from model.tokenization.tokenizer import Tokenizer
from training.data.vocabulary import PAD_ID, train_tokenizer, train_word_tokenizer
from training.errors import RecipeError
from training.fit.recipe import ConvAttentionSizes, NetworkSizes, Recipe


@dataclass(frozen=True, slots=True)
class InitialModel:
    """What a run begins with."""

    config: NetworkConfig
    network: Network
    tokenizer: Tokenizer
    origin: dict[str, str]  # names the pretrained weights, if any
    known: tuple[str, ...] = ()  # classes that the weights tell apart already
    language: str | None = None  # the only one that they read, if recorded


def init_from_scratch(recipe: Recipe, texts: Sequence[str], labels: Sequence[str]) -> InitialModel:
    """Trains a tokenizer and draws fresh weights."""
    if recipe.conv_attention is not None:
        return _start_conv_attention(recipe, recipe.conv_attention, texts, labels)
    if recipe.network is None:
        raise RecipeError(
            "this preset is for pretrained encoders and has no [network] sizes: give --init-from, "
            "or choose another preset"
        )
    sizes: NetworkSizes = recipe.network
    tokenizer = train_tokenizer(texts, vocab_size=sizes.vocab_size, max_length=recipe.max_length)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=sizes.hidden_size,
        num_hidden_layers=sizes.num_layers,
        num_attention_heads=sizes.num_heads,
        intermediate_size=sizes.intermediate_size,
        max_position_embeddings=recipe.max_length,
        type_vocab_size=1,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.attention_dropout,
        initializer_range=sizes.initializer_range,
        pad_token_id=PAD_ID,
        labels=tuple(labels),
    )
    return InitialModel(config, _draw(config, recipe.seed), tokenizer, {})


def _start_conv_attention(
    recipe: Recipe, sizes: ConvAttentionSizes, texts: Sequence[str], labels: Sequence[str]
) -> InitialModel:
    config = ConvAttentionConfig(
        **sizes.model_dump(exclude={"num_words"}),
        max_length=recipe.max_length,
        labels=tuple(labels),
    )
    tokenizer = train_word_tokenizer(
        texts,
        num_words=sizes.num_words,
        max_length=recipe.max_length,
        padded_length=config.padded_length,
    )
    network = build_conv_attention(config)
    network.initialize(generator=torch.Generator().manual_seed(recipe.seed))
    return InitialModel(config, network, tokenizer, {})


def init_from_pretrained(recipe: Recipe, folder: Path, labels: Sequence[str]) -> InitialModel:
    """Loads vocabulary, sizes and weights of an encoder's folder, and what its head knows.

    Raises:
        CheckpointError: the folder is damaged, incomplete or of another kind.
        RecipeError: the recipe is not for an encoder.
    """
    if recipe.conv_attention is not None:
        raise RecipeError(
            "the course's classifier is trained from scratch: leave out --init-from, or choose "
            "another preset"
        )
    check_folder(folder)
    content = read_object(folder / CONFIG)
    config = _adapt(folder / CONFIG, content, recipe, labels)
    try_tokenizer(folder)
    max_length = min(recipe.max_length, config.length_limit)
    tokenizer = load_tokenizer(folder, max_length=max_length, embeddings=config.vocab_size)
    manifest = read_object(folder / MANIFEST) if (folder / MANIFEST).is_file() else {}
    language = manifest.get("language")
    network = _draw(config, recipe.seed)
    classes = _same_classes(labels, content.get("id2label"))
    drawn = {name: each.detach().numpy() for name, each in network.named_parameters()}
    weights, fresh = read_encoder_weights(
        folder / WEIGHTS, drawn, KINDS[config.kind], classes=classes
    )
    fill(network, weights)
    origin = {"init_from": name_of(folder), "init_from_sha256": digest_weights(folder / WEIGHTS)}
    if (fetched := origin_of(folder)) is not None:
        origin["init_from_hub"] = "@".join(fetched)
    has_head = "classifier.weight" not in fresh or 0 < len(classes) < len(labels)
    return InitialModel(
        config,
        network,
        tokenizer,
        origin,
        known=tuple(labels[own] for own in classes) if has_head else (),
        language=language if isinstance(language, str) else None,
    )


def _same_classes(labels: Sequence[str], id2label: object) -> dict[int, int]:
    """The numbers of classes that have the same names, whatever their case: ours, and theirs."""
    named = id2label.items() if isinstance(id2label, dict) else ()
    numbers = {str(name).casefold(): int(number) for number, name in named if number.isdecimal()}
    return {
        own: numbers[name.casefold()]
        for own, name in enumerate(labels)
        if name.casefold() in numbers
    }


def _adapt(
    path: Path, content: dict[str, Any], recipe: Recipe, labels: Sequence[str]
) -> EncoderConfig:
    changes = {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "problem_type": "single_label_classification",
    }
    try:
        config = EncoderConfig.from_json({**content, **changes})
    except ValueError as error:
        raise CheckpointError(path, describe_faults(error)) from error
    # By our names: each kind has its own in `config.json`.
    return config.model_copy(
        update={
            "hidden_dropout_prob": recipe.dropout,
            "attention_probs_dropout_prob": recipe.attention_dropout,
            "classifier_dropout": recipe.dropout,
        }
    )


def _draw(config: EncoderConfig, seed: int) -> EncoderClassifier:
    network = build_encoder(config)
    generator = torch.Generator().manual_seed(seed)
    network.initialize(std=config.initializer_range, generator=generator)
    return network
