"""Loads the recipe of a run: a preset, changed by options and checked."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from model.errors import describe_faults
from model.validation import nearest
from training.errors import RecipeError

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]

_PRESETS, _SUFFIX = files("training") / "fit" / "presets", ".toml"
_SPECIAL_TOKENS = 2
CHOSEN = (
    *("batch_size", "epochs", "patience", "learning_rate", "label_smoothing", "held_layers"),
    *("keep", "teacher_share", "layers", "accumulate"),
)
# Steps of a run, and epochs at least and at most, by docs/decisions/0031-own-classes.md.
_BATCH, _STEPS, _LEAST_EPOCHS, _MOST_EPOCHS = 16, 80, 4, 15
# Of few rows, a teacher's answers help, and an encoder that serves their classes changes little. If
# they are long too, which words they have says most: two layers see that at once.
_FEW, _TEACHER_SHARE, _LONG, _LAYERS = 300, 0.7, 48, 2
# The most rows of known classes for which held embeddings were measured to be as good.
_MODEST = 1_000
# Of a pass on a processor: half a gigabyte in six layers of 384 features.
_MOST_TOKENS = 1_024


class _StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class NetworkSizes(_StrictModel):
    """Sizes of an encoder that is trained from scratch."""

    vocab_size: Annotated[int, Field(ge=100)]
    hidden_size: Count
    num_layers: Count
    num_heads: Count
    intermediate_size: Count
    initializer_range: Annotated[float, Field(gt=0.0, le=10.0)] = 0.02

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.num_heads:
            raise ValueError(
                f"hidden_size ({self.hidden_size}) is not divisible by num_heads ({self.num_heads})"
            )
        return self


class ConvAttentionSizes(_StrictModel):
    """Sizes of the classifier of the seed course. The defaults are those of the course."""

    vocab_size: Count = 3001  # rows of the embedding, more than words
    num_words: Count = 1000
    embedding_size: Count = 32
    num_filters: Count = 100
    kernel_size: Count = 4
    num_heads: Count = 4
    head_dim: Count = 128
    mask_padding: bool = True  # the course did not

    @model_validator(mode="after")
    def _words_have_rows(self) -> Self:
        if self.vocab_size < self.num_words + _SPECIAL_TOKENS:
            raise ValueError(
                f"vocab_size ({self.vocab_size}) must be at least num_words ({self.num_words}) "
                f"plus {_SPECIAL_TOKENS}, for padding and unknown words"
            )
        return self


class Recipe(_StrictModel):
    """Everything that decides the weights, together with the data.

    Args:
        conv_attention: sizes of the classifier of the seed course, instead of an encoder.
        max_length: the most tokens of a text, special tokens included.
        held_layers: the lowest layers that keep their weights, as the embeddings do then; None:
            everything moves.
        class_weights: `balanced` lets every class count alike in the loss, however rare.
        beta2: decay of the optimizer's mean of squared gradients.
        embedding_l2: factor of the squared word embedding that is added to the loss.
        max_grad_norm: gradients are scaled down to this norm; 0: never.
        consistency: weight of how far the answer on a perturbed text diverges from the answer on
            the text itself (Xie et al. 2020, "Unsupervised data augmentation for consistency
            training"). A step then reads every text twice. 0: none.
        label_smoothing: share of the target that is spread over all classes (Szegedy et al. 2016).
        teacher_share: share of the target that is the answer of a teacher (Hinton et al. 2015,
            "Distilling the knowledge in a neural network"): logistic regression on the mean of all
            tokens, fitted to other rows. Only for new classes of a pretrained network.
        layers: the lowest ones, which are kept then, and the last averages all tokens at first;
            None: all.
        token_dropout: share of the tokens that are read as unknown in training.
        detokenize_share: share of the texts in Penn Treebank style (`do n't`) that are
            detokenized (`don't`).
        validation_share: None: a tenth, or more of few rows (see `split_validation`).
        validation_split: whether random rows of each class are for validation, or the last ones.
        keep: the weights with the least validation loss, or of the last epoch; `end`: of the last
            epoch, or the start if it is better by more than the noise of so few rows; `start`: of
            the start, or the last epoch likewise.
    """

    network: NetworkSizes | None = None
    conv_attention: ConvAttentionSizes | None = None
    max_length: Annotated[int, Field(ge=4, le=4096)] = 128
    layers: Count | None = None
    held_layers: Annotated[int, Field(ge=0)] | None = None
    epochs: Count = 3
    batch_size: Count = 64
    accumulate: Count = 1
    class_weights: Literal["none", "balanced"] = "none"
    learning_rate: Annotated[float, Field(gt=0.0)] = 5e-5
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.01
    warmup_share: Share = 0.1
    schedule: Literal["linear", "constant"] = "linear"
    beta2: Share = 0.98
    embedding_l2: Annotated[float, Field(ge=0.0)] = 0.0
    max_grad_norm: Annotated[float, Field(ge=0.0)] = 1.0
    consistency: Annotated[float, Field(ge=0.0)] = 0.0
    label_smoothing: Share = 0.0
    teacher_share: Share = 0.0
    dropout: Share = 0.1
    attention_dropout: Share = 0.1
    token_dropout: Share = 0.0
    detokenize_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    average_decay: Share = 0.0
    validation_share: Annotated[float, Field(gt=0.0, le=0.5)] | None = None
    validation_split: Literal["random", "last"] = "random"
    keep: Literal["best", "last", "end", "start"] = "best"
    patience: Count = 3
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0

    @model_validator(mode="after")
    def _one_network(self) -> Self:
        if self.network is not None and self.conv_attention is not None:
            raise ValueError("a recipe has [network] or [conv_attention], not both")
        return self

    def is_open(self, field: str) -> bool:
        """Whether the rows choose a field, of all networks or of one that comes with weights."""
        if field == "validation_share":
            return self.validation_share is None
        is_pretrained = self.network is None and self.conv_attention is None
        return is_pretrained and field in CHOSEN and field not in self.model_fields_set

    def for_rows(
        self, lengths: Sequence[int], *, is_served: bool, is_known: bool, is_small: bool
    ) -> Self:
        """Chooses what neither preset nor options give a pretrained network, by the rows' tokens.

        `is_served`: the weights serve the classes already (`fit_head`); `is_known`: their head
        knows them by name; `is_small`: a step is divided into passes that need little memory.
        """
        epochs = min(max(_STEPS * _BATCH // len(lengths), _LEAST_EPOCHS), _MOST_EPOCHS)
        is_few = len(lengths) <= _FEW
        layers = _LAYERS if is_few and sum(lengths) > _LONG * len(lengths) else None
        share = _TEACHER_SHARE if layers or len(lengths) <= _FEW // 2 else 0.0
        learnt = (_BATCH, epochs, epochs, 5e-4, 0.1, 0, "end", share, layers)
        chosen: dict[str, Any] = dict(zip(CHOSEN, learnt, strict=False))
        if is_served or is_known:
            keep = "start" if is_few and not is_known else "best"
            held = 0 if len(lengths) <= _MODEST else None
            chosen = {"batch_size": 2 * _BATCH, "keep": keep, "held_layers": held}
        batch_size = chosen["batch_size"] if self.is_open("batch_size") else self.batch_size
        tokens = batch_size * max(lengths) if is_small else 1
        chosen["accumulate"] = math.ceil(tokens / _MOST_TOKENS)
        if not self.is_open("patience"):  # a run that may stop early keeps its best weights
            chosen.pop("keep", None)
        return self.model_copy(update={x: chosen[x] for x in chosen if self.is_open(x)})


def presets() -> tuple[str, ...]:
    """Returns the names of the presets that come with the project."""
    names = (entry.name for entry in _PRESETS.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def load_recipe(preset: str, changes: Mapping[str, object], *, are_typed: bool = True) -> Recipe:
    """Reads a preset by its name, or the TOML file at its path, and applies options to it.

    `are_typed` says whether the changes are options of a command line, which errors name so. Raises
    `RecipeError`, which lists every fault.
    """
    content = _read(preset)
    try:
        return Recipe.model_validate({**content, **changes})
    except ValidationError as error:
        options = {name: f"--{name.replace('_', '-')}" if are_typed else name for name in changes}
        typed = ", ".join(options.values())
        source = f"preset {preset} with {typed}" if typed else f"preset {preset}"
        raise RecipeError(f"{source}: {describe_faults(error, options)}") from error


def _read(preset: str) -> dict[str, Any]:
    if preset in presets():
        text = (_PRESETS / f"{preset}{_SUFFIX}").read_text(encoding="utf-8")
    elif preset.endswith(_SUFFIX):
        try:
            text = Path(preset).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise RecipeError(f"preset {preset}: cannot be read: {reason}") from error
    else:
        near = nearest(preset, presets())
        hint = "" if near is None else f"; did you mean {near}?"
        raise RecipeError(
            f"--preset: there is no preset {preset}: choose one of {', '.join(presets())}, or give "
            f"the path of a file that ends in {_SUFFIX}{hint}"
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"preset {preset}: is not TOML: {error}") from error
