"""Reads and seals `headlight.json`, which describes a checkpoint beside its weights and sizes."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt

from model.labels import Labels

FORMAT_VERSION: Literal[1] = 1
# A key in config.json that marks our folders; folders of other tools have no headlight.json.
MARK = "headlight_format_version"


def _check_name(name: str) -> str:
    # A path could name any file of the machine, which would then be read to its end.
    if name in ("", ".", "..") or not name.isprintable() or "/" in name or "\\" in name:
        raise ValueError("must be the plain name of a file in the folder")
    return name


Share = Annotated[float, Field(ge=0.0, le=1.0)]
FileName = Annotated[str, AfterValidator(_check_name)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataSource(_Record):
    """A file of training data.

    Args:
        file: its name without the folder; in a plan its path as the plan writes it.
        rows: rows that were read from it.
        sha256: the SHA-256 of the file on disk.
    """

    file: str
    rows: PositiveInt
    sha256: Digest


class Metric(_Record):
    """The accuracy on one set, measured when the checkpoint was made.

    Args:
        name: the name of the set.
        rows: texts of the set.
        accuracy: share of correct labels.
        interval: its 95 % Wilson interval.
        log_loss: mean negative log-likelihood after calibration, in nats.
        ece: expected calibration error after calibration, 15 bins.
    """

    name: str
    rows: PositiveInt
    accuracy: Share
    interval: tuple[Share, Share]
    log_loss: Annotated[float, Field(ge=0.0)]
    ece: Share


class Manifest(_Record):
    """The content of `headlight.json`.

    Args:
        format_version: version of this format.
        labels: names of the classes, in order.
        temperature: logits are divided by it before the softmax (Guo et al. 2017).
        max_length: the most tokens that the model reads.
        training_data: the files of training data.
        seed: seed of the run.
        recipe: every option of the run.
        metrics: accuracy on each measured set.
        files: SHA-256 of the other files of the folder, by their plain names; it detects a
            flipped bit.
        sha256: SHA-256 of the rest of this content (see `seal`); None if written by hand.
    """

    format_version: Literal[1] = FORMAT_VERSION
    labels: Labels = Field(min_length=2)
    temperature: float = Field(default=1.0, ge=1e-3, le=1e3, allow_inf_nan=False)
    max_length: PositiveInt
    training_data: tuple[DataSource, ...] = ()
    seed: int | None = None
    recipe: dict[str, Any] = Field(default_factory=dict)
    metrics: tuple[Metric, ...] = ()
    files: dict[FileName, Digest] = Field(default_factory=dict)
    sha256: Digest | None = None


def seal(content: Mapping[str, Any]) -> str:
    """Computes the SHA-256 of the content of `headlight.json`; white space does not matter.

    Args:
        content: the JSON object; its own `sha256` is ignored.
    """
    rest = {key: value for key, value in content.items() if key != "sha256"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
