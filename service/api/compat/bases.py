"""Holds what the schemas of other systems' bodies share."""

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from model.validation import nearest


def check_count(texts: object, info: ValidationInfo) -> object:
    """Counts texts before any is looked at: a body may hold a million."""
    most = (info.context or {}).get("max_sentences")
    lists = [texts, *texts.values()] if isinstance(texts, dict) else [texts]
    for each in lists:
        if most is not None and isinstance(each, list) and len(each) > most:
            raise ValueError(f"at most {most} texts are taken at once, got {len(each)}")
    return texts


Counted = BeforeValidator(check_count)
# A text or a list of texts, as the interface describes it; what else it is has its own error.
TextOrList = Annotated[
    object,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    Counted,
]


class Body(BaseModel):
    """A body."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Member(Body):
    """An object within a body; it says itself which fields it has."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:  # noqa: ANN401 - anything that JSON holds
        if isinstance(value, dict) and not value.keys() <= cls.model_fields.keys():
            known = ", ".join(cls.model_fields)
            unknown = next(name for name in value if name not in cls.model_fields)
            near = nearest(unknown, cls.model_fields)
            hint = "" if near is None else f"did you mean {near}? "
            raise ValueError(f"an unknown field is given; {hint}known are {known}")
        return value
