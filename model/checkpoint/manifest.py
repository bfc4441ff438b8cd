"""Reads and seals `headlight.json`, which describes a checkpoint beside its weights and sizes."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, model_validator

from model.checkpoint.baseline import Baseline
from model.checkpoint.record_types import Digest, Record, Rows, SetName, Share
from model.checkpoint.thresholds import Thresholds
from model.files import is_file_name
from model.network.labels import POLES, Labels, has_pair

FORMAT_VERSION: Literal[1] = 1
# A key in config.json that marks our folders; folders of other tools have no headlight.json.
MARK = "headlight_format_version"
# An accuracy times its rows is a whole number; more than this is no rounding of floats.
_ROUNDING = 1e-3


def _check_name(name: str) -> str:
    # What it names is read to its end.
    if not is_file_name(name):
        raise ValueError("must be the plain name of a file in the folder")
    return name


FileName = Annotated[str, AfterValidator(_check_name)]
Loss = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Temperature = Annotated[float, Field(ge=1e-3, le=1e3, allow_inf_nan=False)]


class DataSource(Record):
    """A file of training data; in a plan, `file` is the path that the plan states."""

    file: str
    rows: PositiveInt
    sha256: Digest


class Metric(Record):
    """The accuracy on one set, with its 95 % Wilson interval, as it was measured in training.

    `log_loss` is the mean negative log-likelihood after calibration, in nats; `ece` has 15 bins.
    """

    name: str
    rows: PositiveInt
    accuracy: Share
    interval: tuple[Share, Share]
    log_loss: Annotated[float, Field(ge=0.0)]
    ece: Share


class PrecisionSet(Record):
    """How one type of numbers did on one set, beside float32; `log_loss` is in nats.

    `lost` texts are right in float32 and wrong in the type, `gained` texts the other way.
    """

    name: SetName
    rows: Rows
    accuracy: Share
    log_loss: Loss
    float32_accuracy: Share
    float32_log_loss: Loss
    lost: NonNegativeInt
    gained: NonNegativeInt

    @property
    def change(self) -> int:
        """Right texts that the type has more than float32; below 0 if it has fewer."""
        return self.gained - self.lost

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        right = _whole("accuracy", self.accuracy, self.rows)
        exact = _whole("float32_accuracy", self.float32_accuracy, self.rows)
        if right - exact != self.change:
            raise ValueError(
                f"{right} of {self.rows} rows are right, {exact} in float32, but gained minus "
                f"lost is {self.change}: must be {right - exact}"
            )
        if self.lost > exact or self.gained > self.rows - exact:
            raise ValueError(
                f"lost is {self.lost} and gained is {self.gained}: at most the {exact} rows that "
                f"are right in float32 can be lost, and the other {self.rows - exact} gained"
            )
        return self


def _whole(name: str, share: float, rows: int) -> int:
    """The rows that are a share of all."""
    count = round(share * rows)
    if abs(share * rows - count) > _ROUNDING:
        raise ValueError(
            f"{name} is {share} of {rows} rows, which is no whole number of rows: measure again"
        )
    return count


class Precision(Record):
    """What a type of numbers was measured to cost the weights with this SHA-256."""

    dtype: Literal["bfloat16", "int8"]
    weights_sha256: Digest
    processor: str
    torch: str
    #: of weights in int8
    scheme: int = 1
    sets: tuple[PrecisionSet, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        _check_once("set", [one.name for one in self.sets])
        return self


def _check_once(what: str, names: list[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ValueError(f"the {what} {name} is there more than once: keep one")


class Manifest(Record):
    """The content of `headlight.json`.

    Args:
        temperature: logits are divided by it before the softmax (Guo et al. 2017).
        pair_temperature: the same where only `negative` and `positive` may be answered, of a model
            with more labels.
        max_length: the most tokens that the model reads.
        language: the code of the only language that the model reads, such as `en`.
        recipe: every option of the run.
        precision: what types of fewer bits were measured to cost; each type once.
        baseline: what the validation texts look like, and how they are answered.
        thresholds: what thresholds on the score leave of the answers to these texts.
        files: SHA-256 of the other files of the folder, by their plain names.
        sha256: SHA-256 of the rest of this content (see `seal`); None if written by hand.
    """

    format_version: Literal[1] = FORMAT_VERSION
    labels: Labels = Field(min_length=2)
    temperature: Temperature = 1.0
    pair_temperature: Temperature | None = None
    max_length: PositiveInt
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$")] | None = None
    training_data: tuple[DataSource, ...] = ()
    seed: int | None = None
    recipe: dict[str, Any] = Field(default_factory=dict)
    metrics: tuple[Metric, ...] = ()
    precision: tuple[Precision, ...] = ()
    baseline: Baseline | None = None
    thresholds: Thresholds | None = None
    files: dict[FileName, Digest] = Field(default_factory=dict)
    sha256: Digest | None = None

    @model_validator(mode="after")
    def _check_types(self) -> Self:
        _check_once("type", [record.dtype for record in self.precision])
        return self

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if self.pair_temperature is not None and not has_pair(self.labels):
            raise ValueError(
                f"pair_temperature is for {' and '.join(POLES)} beside other labels, and the "
                f"labels are {', '.join(self.labels)}: take it out"
            )
        return self

    @model_validator(mode="after")
    def _check_classes(self) -> Self:
        baseline, thresholds = self.baseline, self.thresholds
        for name, known in (
            ("baseline.scores", None if baseline is None else list(baseline.scores)),
            ("thresholds.texts", None if thresholds is None else list(thresholds.texts)),
        ):
            if known is not None and set(known) != set(self.labels):
                raise ValueError(
                    f"{name} are of {', '.join(known)}, must be of {', '.join(self.labels)}"
                )
        return self

    def to_json(self) -> dict[str, Any]:
        """Returns what is written to `headlight.json`, without empty optional records."""
        content = self.model_dump(mode="json")
        for name in ("pair_temperature", "language", "precision", "baseline", "thresholds"):
            if not content[name]:
                del content[name]
        return content


def seal(content: Mapping[str, Any]) -> str:
    """Computes the SHA-256 of the content of `headlight.json`; white space does not matter."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
