"""Reads and writes the sizes of a network as `config.json`.

An encoder uses the names of transformers.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from model.errors import shorten
from model.network.families import KINDS, Kind, KindName, Pooling
from model.network.labels import Labels

Activation = Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"]
# Other names of transformers for the same functions.
_ALIASES = {
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_python": "gelu",
    "gelu_python_tanh": "gelu_new",
    "swish": "silu",
}


def _activation(name: object) -> object:
    return _ALIASES.get(name, name) if isinstance(name, str) else name


# Far above any encoder. A damaged file that exceeds these limits must not fill the memory.
Size = Annotated[int, Field(ge=1, le=10_000_000)]
LayerCount = Annotated[int, Field(ge=1, le=1_000)]
_MAX_LABELS = 100_000
Shapes = dict[str, tuple[int, ...]]  # shapes of parameters by their names


class EncoderConfig(BaseModel):
    """Sizes of an encoder with a classifier on its first token.

    The names are those of transformers' BERT. Other entries of `config.json` are ignored: they do
    not change the forward pass.

    Args:
        kind: the `model_type`; see `model.network.families`.
        num_attention_heads: heads of each layer; they divide `hidden_size`.
        max_position_embeddings: rows of the position embedding; see `length_limit`.
        type_vocab_size: rows of the segment embedding, of which only the first is used; 0 for a
            kind that has no segments.
        hidden_dropout_prob: dropout after the embeddings and each sublayer, in training.
        classifier_dropout: dropout before the classifier; None means `hidden_dropout_prob`.
        layer_norm_eps: added to the variance in layer normalisation.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    # The residual connection adds the input of attention to its output.
    residual_share: ClassVar[float] = 0.5
    padded_length: ClassVar[int | None] = None  # texts may have any length

    kind: KindName = "bert"
    vocab_size: Size
    hidden_size: Size
    num_hidden_layers: LayerCount
    num_attention_heads: Size
    intermediate_size: Size
    max_position_embeddings: Size = 512
    type_vocab_size: int = Field(default=2, ge=0, le=10_000_000)
    hidden_act: Annotated[Activation, BeforeValidator(_activation)] = "gelu"
    hidden_dropout_prob: float = Field(default=0.1, ge=0.0, lt=1.0)
    attention_probs_dropout_prob: float = Field(default=0.1, ge=0.0, lt=1.0)
    classifier_dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    # Published encoders have 1e-12 to 1e-5, and 1e-3 is the default of Keras. A large value makes
    # every text alike; one that float32 rounds to 0 divides by zero.
    layer_norm_eps: float = Field(default=1e-12, ge=1e-15, le=1e-2)
    initializer_range: float = Field(default=0.02, ge=0.0, le=10.0)
    pad_token_id: int = Field(default=0, ge=0)
    labels: Labels = Field(min_length=2, strict=False)

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size ({self.hidden_size}) is not divisible by num_attention_heads "
                f"({self.num_attention_heads})"
            )
        if len(set(self.labels)) < len(self.labels):
            raise ValueError(f"labels must differ, got {', '.join(self.labels)}")
        if self.pad_token_id >= self.vocab_size:
            raise ValueError(
                f"pad_token_id ({self.pad_token_id}) must be below vocab_size ({self.vocab_size})"
            )
        if self._kind.has_segments != (self.type_vocab_size > 0):
            needed = "at least 1" if self._kind.has_segments else "0"
            raise ValueError(
                f"type_vocab_size ({self.type_vocab_size}) must be {needed} for {self.kind}"
            )
        if self.length_limit < 1:
            raise ValueError(
                f"max_position_embeddings ({self.max_position_embeddings}) must be above the "
                f"{self.position_offset} rows before the first position"
            )
        return self

    @property
    def _kind(self) -> Kind:
        return KINDS[self.kind]

    @property
    def architecture(self) -> str:
        """The name of the network's class in transformers."""
        return self._kind.architecture

    @property
    def pooling(self) -> Pooling:
        """The function between the two linear layers of the head."""
        return self._kind.pooling

    @property
    def position_offset(self) -> int:
        """Rows of the position embedding before that of the first token."""
        return self.pad_token_id + 1 if self._kind.counts_from_padding else 0

    @property
    def num_layers(self) -> int:
        """Layers that give attention weights."""
        return self.num_hidden_layers

    @property
    def num_heads(self) -> int:
        """Heads of each layer."""
        return self.num_attention_heads

    @property
    def head_dim(self) -> int:
        """Features of one head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def length_limit(self) -> int:
        """The most tokens that the network can read."""
        return self.max_position_embeddings - self.position_offset

    def parameter_shapes(self) -> Shapes:
        """Returns the shape of each parameter of the network by its name."""
        size, inner = self.hidden_size, self.intermediate_size
        shapes: Shapes = {
            "embeddings.tokens.weight": (self.vocab_size, size),
            "embeddings.positions.weight": (self.max_position_embeddings, size),
        }
        if self.type_vocab_size:
            shapes["embeddings.types.weight"] = (self.type_vocab_size, size)
        parts: Shapes = {"pooler": (size, size), "classifier": (len(self.labels), size)}
        parts["embeddings.norm"] = (size,)
        for prefix in (f"layers.{number}." for number in range(self.num_hidden_layers)):
            for part in ("query", "key", "value", "output"):
                parts[f"{prefix}attention.{part}"] = (size, size)
            parts[f"{prefix}intermediate"] = (inner, size)
            parts[f"{prefix}output"] = (size, inner)
            parts[f"{prefix}attention_norm"] = parts[f"{prefix}output_norm"] = (size,)
        return shapes | _with_biases(parts)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Reads the content of a `config.json` that transformers or this project wrote.

        Raises:
            pydantic.ValidationError: a size is missing, of the wrong type or does not fit.
            ValueError: the network is not an encoder of this kind.
        """
        kind = KINDS.get(str(content.get("model_type")))
        if kind is None:
            raise ValueError(
                f"model_type is {shorten(repr(content.get('model_type')))}, only "
                f"{', '.join(map(repr, KINDS))} can be loaded"
            )
        positions = content.get("position_embedding_type")
        if positions not in (None, "absolute"):
            raise ValueError(
                f"position_embedding_type is {shorten(repr(positions))}, "
                "only 'absolute' can be loaded"
            )
        if content.get("is_decoder") or content.get("add_cross_attention"):
            raise ValueError("the network is a decoder, only encoders can be loaded")
        if content.get("problem_type") not in (None, "single_label_classification"):
            raise ValueError(
                f"problem_type is {shorten(repr(content['problem_type']))}, "
                "only 'single_label_classification' can be loaded"
            )
        if content.get("pad_token_id", 0) is None and not kind.counts_from_padding:
            content = {key: value for key, value in content.items() if key != "pad_token_id"}
        return cls(**{**kind.read(content), "kind": kind.name, "labels": _labels(content)})

    def to_json(self) -> dict[str, Any]:
        """Returns the content of a `config.json` that transformers reads as its own."""
        return {
            "architectures": [self.architecture],
            "model_type": self.kind,
            # Weights may be stored in 16 bits; this makes transformers compute in 32.
            "dtype": "float32",
            **self._kind.write(self.model_dump(exclude={"kind", "labels"})),
            "problem_type": "single_label_classification",
            **_label_maps(self.labels),
        }


class ConvAttentionConfig(BaseModel):
    """Sizes of the classifier of the seed course.

    Args:
        vocab_size: rows of the embedding; row 0 is padding.
        mask_padding: whether attention ignores padding.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    architecture: ClassVar[str] = "ConvAttentionClassifier"
    # There is no residual connection: only the output of attention goes on.
    residual_share: ClassVar[float] = 0.0
    num_layers: ClassVar[int] = 1

    vocab_size: Size = 3001
    embedding_size: Size = 32
    num_filters: Size = 100
    kernel_size: Size = 4
    num_heads: Size = 4
    head_dim: Size = 128
    max_length: Size = 32
    mask_padding: bool = True
    labels: Labels = Field(strict=False)

    @model_validator(mode="after")
    def _classes_differ(self) -> Self:
        if len(set(self.labels)) < max(2, len(self.labels)):
            raise ValueError(
                f"labels must be 2 or more different names, got {', '.join(self.labels)}"
            )
        return self

    @property
    def hidden_size(self) -> int:
        """Features of a word at the input of attention."""
        return self.num_filters

    @property
    def length_limit(self) -> int:
        """The most words that the network can read."""
        return self.max_length

    @property
    def padded_length(self) -> int | None:
        """The length of every text if attention reads padding, else None."""
        return None if self.mask_padding else self.max_length

    def parameter_shapes(self) -> Shapes:
        """Returns the shape of each parameter of the network by its name."""
        size, width, classes = self.num_filters, self.num_heads * self.head_dim, len(self.labels)
        parts: Shapes = {"convolution": (size, self.embedding_size, self.kernel_size)}
        for part in ("query", "key", "value"):
            parts[f"attention.{part}"] = (width, size)
        parts["attention.output"] = (size, width)
        # Two classes have one unit.
        parts["classifier"] = (classes if classes > 2 else 1, self.max_length * size)
        return {"embedding.weight": (self.vocab_size, self.embedding_size)} | _with_biases(parts)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Reads the content of a `config.json`; raises as `EncoderConfig.from_json` does."""
        return cls(**{**content, "labels": _labels(content)})

    def to_json(self) -> dict[str, Any]:
        """Returns the content of a `config.json`."""
        return {
            "architectures": [self.architecture],
            "model_type": "conv_attention",
            **self.model_dump(exclude={"labels"}),
            **_label_maps(self.labels),
        }


NetworkConfig = EncoderConfig | ConvAttentionConfig

_CONFIGS: Mapping[str, type[NetworkConfig]] = {
    **dict.fromkeys(KINDS, EncoderConfig),
    "conv_attention": ConvAttentionConfig,
}


def read_config(content: Mapping[str, Any]) -> NetworkConfig:
    """Reads the content of a `config.json`; raises as `EncoderConfig.from_json` does."""
    if not is_known(content):
        *most, last = map(repr, _CONFIGS)
        raise ValueError(
            f"model_type is {shorten(repr(content.get('model_type')))}, only {', '.join(most)} and "
            f"{last} can be loaded"
        )
    return _CONFIGS[content["model_type"]].from_json(content)


def is_known(content: Mapping[str, Any]) -> bool:
    """Returns whether a `config.json` names a kind of network that can be loaded."""
    kind = content.get("model_type")
    return isinstance(kind, str) and kind in _CONFIGS


def encoder_kind(config: NetworkConfig) -> Kind | None:
    """Returns the kind of an encoder; None for a network that stores weights under our names."""
    return KINDS[config.kind] if isinstance(config, EncoderConfig) else None


def _with_biases(weights: Shapes) -> Shapes:
    """Returns the shapes of the weight and the bias of each part, from those of its weight."""
    biases = {f"{name}.bias": shape[:1] for name, shape in weights.items()}
    return {f"{name}.weight": shape for name, shape in weights.items()} | biases


def _label_maps(labels: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def _labels(content: Mapping[str, Any]) -> tuple[str, ...]:
    id2label = content.get("id2label")
    if id2label is None:
        count = content.get("num_labels", 2)
        if not isinstance(count, int) or not 2 <= count <= _MAX_LABELS:
            raise ValueError(
                f"num_labels is {shorten(repr(count))}, must be from 2 to {_MAX_LABELS}"
            )
        return tuple(f"LABEL_{index}" for index in range(count))
    if not isinstance(id2label, dict) or not all(
        isinstance(label, str | int | float) for label in id2label.values()
    ):
        raise ValueError("id2label must be an object of class numbers to names")
    if sorted(id2label) != sorted(str(index) for index in range(len(id2label))):
        raise ValueError(f"id2label must name the classes 0 to {len(id2label) - 1}, each once")
    if len(id2label) < 2:
        raise ValueError(
            f"id2label must name at least 2 classes, names {len(id2label)}: a network with one "
            "output is a regression, which has no classes to choose from"
        )
    # Tools that number their classes write the numbers as names.
    return tuple(str(id2label[str(index)]) for index in range(len(id2label)))
