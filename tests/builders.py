"""The smallest real models and checkpoint folders, which all suites share: nothing is mocked."""

from pathlib import Path
from typing import Any, cast

import torch

from model.backends.cpu_kernels import KernelEncoder
from model.backends.kernels import InstructionSet
from model.checkpoint.manifest import Manifest
from model.checkpoint.records import Baseline, Precision, PrecisionSet, Thresholds
from model.checkpoint.saving import save_checkpoint
from model.network.config import ConvAttentionConfig, EncoderConfig
from model.network.conv_attention import ConvAttentionClassifier, build_conv_attention
from model.network.encoder import EncoderClassifier, build_encoder
from model.network.layers import EncoderLayer
from model.tokenization.tokenizer import Tokenizer
from model.tokenization.wordpiece import wordpiece_tokenizer
from model.types import Batch, ClassifierOutput, Encoding
from training.data.vocabulary import train_word_tokenizer

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# fmt: off
WORDS = (
    "a", "an", "and", "bad", "boring", "but", "cast", "cold", "deep", "dull", "film", "funny",
    "good", "great", "is", "it", "long", "love", "movie", "not", "plot", "poor", "short",
    "slow", "superb", "the", "this", "very", "warm", "was", "weak",
)
# fmt: on
PIECES = ("##s", "##ed", "##er", "##ing", "##ly")
PUNCTUATION = tuple(".,!?'-")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
# Every ASCII word can be spelled: whole words, then pieces, then single letters.
VOCABULARY = tuple(
    dict.fromkeys(
        (*SPECIALS, *WORDS, *PIECES, *PUNCTUATION, *LETTERS, *(f"##{x}" for x in LETTERS))
    )
)
LABELS = ("negative", "positive")
MAX_LENGTH = 32


def tiny_config(**changes: Any) -> EncoderConfig:  # noqa: ANN401
    """Hidden size 8, 2 heads, 2 layers; any field can be changed."""
    sizes: dict[str, Any] = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": MAX_LENGTH,
        "labels": LABELS,
    }
    return EncoderConfig(**{**sizes, **changes})


def tiny_tokenizer(*, max_length: int = MAX_LENGTH) -> Tokenizer:
    """WordPiece over `VOCABULARY`, lower-casing."""
    vocabulary = {token: index for index, token in enumerate(VOCABULARY)}
    backend = wordpiece_tokenizer(vocabulary, path=Path("vocab.txt"))
    return Tokenizer(backend, max_length=max_length)


def tiny_network(
    config: EncoderConfig | None = None, *, seed: int = 0, std: float = 0.5
) -> EncoderClassifier:
    """A network in evaluation mode; the wide weights make its answers differ from text to text."""
    network = build_encoder(config or tiny_config())
    network.initialize(std=std, generator=torch.Generator().manual_seed(seed))
    return network.eval()


def tiny_manifest(**changes: Any) -> Manifest:  # noqa: ANN401
    """Two labels, a temperature that is not 1, and one metric."""
    content: dict[str, Any] = {
        "labels": LABELS,
        "temperature": 1.5,
        "max_length": MAX_LENGTH,
        "seed": 0,
        "metrics": [
            {
                "name": "dev",
                "rows": 100,
                "accuracy": 0.8,
                "interval": (0.711, 0.867),
                "log_loss": 0.45,
                "ece": 0.03,
            }
        ],
    }
    return Manifest.model_validate({**content, **changes})


def tiny_baseline(**changes: Any) -> Baseline:  # noqa: ANN401
    """Of 1,000 texts of the dev set, with four bins of scores and three of lengths."""
    content: dict[str, Any] = {
        "sets": ["dev"],
        "rows": 1000,
        "score_bounds": [0.6, 0.75, 0.9],
        "scores": {"negative": [100, 150, 150, 0], "positive": [200, 100, 200, 100]},
        "length_bounds": [8, 16],
        "lengths": [700, 200, 100],
        "truncated": 50,
        "tokens": 10_000,
        "unknown_tokens": 20,
    }
    return Baseline.model_validate({**content, **changes})


def tiny_thresholds(**changes: Any) -> Thresholds:  # noqa: ANN401
    """Of 1,000 texts of the dev set, at two thresholds."""
    content: dict[str, Any] = {
        "sets": ["dev"],
        "rows": 1000,
        "texts": {"negative": 400, "positive": 600},
        "by_threshold": [
            {
                "threshold": 0.5,
                "answers": {"negative": 500, "positive": 500},
                "right": {"negative": 350, "positive": 450},
            },
            {
                "threshold": 0.9,
                "answers": {"negative": 0, "positive": 200},
                "right": {"negative": 0, "positive": 150},
            },
        ],
    }
    return Thresholds.model_validate({**content, **changes})


def precision_set(
    name: str = "dev", *, rows: int = 1000, right: int = 900, lost: int = 0, gained: int = 0
) -> PrecisionSet:
    """A set of which so many rows are right in float32, and so many turn in another type."""
    return PrecisionSet(
        name=name,
        rows=rows,
        accuracy=(right + gained - lost) / rows,
        log_loss=0.3,
        float32_accuracy=right / rows,
        float32_log_loss=0.3,
        lost=lost,
        gained=gained,
    )


def precision(
    *sets: PrecisionSet, dtype: str = "int8", weights: str = "0" * 64, scheme: int = 2
) -> Precision:
    """A record of these sets; one of 1,000 rows of which none turns if none is given."""
    return Precision.model_validate(
        {
            "dtype": dtype,
            "weights_sha256": weights,
            "processor": "one",
            "torch": torch.__version__,
            "scheme": scheme,
            "sets": sets or (precision_set(),),
        }
    )


class KernelNetwork:
    """The kernels' form of an encoder, called as the encoder itself; embeddings are shared."""

    def __init__(
        self,
        network: EncoderClassifier,
        dtype: str = "float32",
        instructions: InstructionSet | None = None,
    ) -> None:
        weights = {name: each.detach().numpy() for name, each in network.named_parameters()}
        layer, embeddings = cast("EncoderLayer", network.layers[0]), network.embeddings
        config = tiny_config(
            vocab_size=embeddings.tokens.num_embeddings,
            hidden_size=embeddings.tokens.embedding_dim,
            num_hidden_layers=len(network.layers),
            num_attention_heads=network.num_heads,
            intermediate_size=layer.intermediate.out_features,
            max_position_embeddings=embeddings.positions.num_embeddings,
            hidden_act=layer.activation,
            layer_norm_eps=embeddings.norm.eps,
            labels=tuple(map(str, range(network.classifier.out_features))),
        )
        self.encoder = KernelEncoder(weights, config, dtype=dtype, instructions=instructions)

    def __call__(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        encodings = []
        for row, ids in enumerate(batch.input_ids):
            padding, masks = batch.key_padding_mask, batch.head_mask
            own = ids if padding is None else ids[~padding[row]]
            mask = None if masks is None else tuple(map(tuple, masks[:, row].tolist()))
            encodings.append(Encoding(own.tolist(), truncated=False, head_mask=mask))
        output = self.encoder(encodings, need_weights=need_weights)
        weights = tuple(map(torch.from_numpy, output.weights))
        return ClassifierOutput(torch.from_numpy(output.logits), weights)


def tiny_checkpoint(
    path: Path,
    *,
    seed: int = 0,
    config: EncoderConfig | None = None,
    network: EncoderClassifier | None = None,
    manifest: Manifest | None = None,
    dtype: torch.dtype = torch.float32,
) -> Path:
    """Writes a checkpoint folder and returns its path.

    Another seed gives another version, unless a network is given. Labels and maximum length of
    the manifest follow `config` unless a manifest is given.
    """
    config = config or tiny_config()
    if manifest is None:
        manifest = tiny_manifest(labels=config.labels, max_length=config.max_position_embeddings)
    save_checkpoint(
        path,
        network=network or tiny_network(config, seed=seed),
        config=config,
        tokenizer=tiny_tokenizer(max_length=manifest.max_length),
        manifest=manifest,
        dtype=dtype,
    )
    return path


def tiny_conv_config(**changes: Any) -> ConvAttentionConfig:  # noqa: ANN401
    """Eight features and filters, 2 heads of 4, texts of 8 words; any field can be changed."""
    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS) + 2,
        "embedding_size": 8,
        "num_filters": 8,
        "num_heads": 2,
        "head_dim": 4,
        "max_length": 8,
        "labels": LABELS,
    }
    return ConvAttentionConfig(**{**sizes, **changes})


def tiny_conv_network(
    config: ConvAttentionConfig | None = None, *, seed: int = 0
) -> ConvAttentionClassifier:
    """A network in evaluation mode whose wide weights make its answers differ."""
    network = build_conv_attention(config or tiny_conv_config())
    generator = torch.Generator().manual_seed(seed)
    network.initialize(generator=generator)
    with torch.no_grad():
        network.embedding.weight.mul_(30.0)
    return network.eval()


def tiny_conv_checkpoint(path: Path, *, mask_padding: bool = True, seed: int = 0) -> Path:
    """Writes a checkpoint folder of the course's classifier over `WORDS` and returns its path."""
    config = tiny_conv_config(mask_padding=mask_padding)
    save_checkpoint(
        path,
        network=tiny_conv_network(config, seed=seed),
        config=config,
        tokenizer=train_word_tokenizer(
            WORDS,
            num_words=len(WORDS),
            max_length=config.max_length,
            padded_length=config.padded_length,
        ),
        manifest=tiny_manifest(max_length=config.max_length),
    )
    return path
