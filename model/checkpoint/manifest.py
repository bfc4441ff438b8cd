"""Reads and seals `headlight.json`, which describes a checkpoint beside its weights and sizes."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PositiveInt, model_validator

from model.checkpoint.records import (
    Baseline,
    DataSource,
    Digest,
    Metric,
    Precision,
    Record,
    Thresholds,
)
from model.files import is_file_name
from model.network.labels import PAIR, Labels, has_pair

FORMAT_VERSION: Literal[1] = 1
# A key in config.json that marks our folders; folders of other tools have no headlight.json.
MARK = "headlight_format_version"


def _check_name(name: str) -> str:
    # What it names is read to its end.
    if not is_file_name(name):
        raise ValueError("must be the plain name of a file in the folder")
    return name


FileName = Annotated[str, AfterValidator(_check_name)]
Temperature = Annotated[float, Field(ge=1e-3, le=1e3, allow_inf_nan=False)]


class Manifest(Record):
    """The content of `headlight.json`.

    Args:
        temperature: logits are divided by it before the softmax (Guo et al. 2017).
        pair_temperature: the same where only `negative` and `positive` may be answered, of a model
            with more labels.
        language: the code of the only language that the model reads, such as `en`.
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
    def _check_records(self) -> Self:
        types = [record.dtype for record in self.precision]
        if len(set(types)) < len(types):
            raise ValueError(f"precision has {' and '.join(types)}: keep one record of each type")
        if self.pair_temperature is not None and not has_pair(self.labels):
            raise ValueError(
                f"pair_temperature is for {' and '.join(PAIR)} beside other labels, and the "
                f"labels are {', '.join(self.labels)}: take it out"
            )
        baseline, thresholds = self.baseline, self.thresholds
        for name, labels in (
            ("baseline.scores", self.labels if baseline is None else tuple(baseline.scores)),
            ("thresholds.texts", self.labels if thresholds is None else tuple(thresholds.texts)),
        ):
            if set(labels) != set(self.labels):
                raise ValueError(
                    f"{name} are of {', '.join(labels)}, must be of {', '.join(self.labels)}"
                )
        return self

    def to_json(self) -> dict[str, Any]:
        """Returns what is written to `headlight.json`, without empty optional records."""
        content = self.model_dump(mode="json")
        for name in ("pair_temperature", "language", "precision", "baseline", "thresholds"):
            if not content[name]:
                del content[name]
        return content


def sealed(manifest: Manifest) -> dict[str, Any]:
    """Returns the content of `headlight.json` with its own SHA-256."""
    content = manifest.to_json()
    return {**content, "sha256": seal(content)}


def seal(content: Mapping[str, Any]) -> str:
    """Computes the SHA-256 of the content of `headlight.json`; white space does not matter."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
