"""Defines what the records in `headlight.json` are made of: their base and types of fields."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# Characters of the name of a set.
LONGEST_NAME = 200


class Record(BaseModel):
    """A part of `headlight.json`; a field that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _check_printable(name: str) -> str:
    # The name of a set gets into logs and answers.
    if not name.isprintable():
        raise ValueError("must be printable")
    return name


Share = Annotated[float, Field(ge=0.0, le=1.0)]
# Bounded, because a float must hold them.
Rows = Annotated[int, Field(gt=0, le=1_000_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
SetName = Annotated[
    str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_check_printable)
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
