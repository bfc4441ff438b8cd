"""Loads plans, which make a checkpoint in several stages from many sources and a teacher."""

import tomllib
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from model.errors import describe_faults
from training.errors import RecipeError
from training.fit.recipe import Recipe

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Passes = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=0)]

_WITH_NEUTRAL = 3
# A plan sets the network and the rows held out elsewhere, not in its recipes.
_ONLY_OF_RUNS = frozenset({"network", "conv_attention", "hold_out", "validation_share"})


class _StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Pretrained(_StrictModel):
    """A pretrained encoder.

    Args:
        classifies: whether it is a checkpoint that predicts the classes of the plan already.
    """

    name: str
    licence: str
    sha256: Digest
    classifies: bool = False
    weight: Annotated[float, Field(ge=0.0)] = 0.0

    @model_validator(mode="after")
    def _weight_of_a_classifier(self) -> Self:
        if self.weight and not self.classifies:
            raise ValueError("an encoder that does not classify has no weight in the result")
        return self


class SourceFile(_StrictModel):
    """A file of texts.

    Args:
        labels: its classes, in the order of their numbers; none: those of the plan. A file that
            lacks classes of the plan teaches only which of its own classes is the right one.
        hold_out: number of labelled rows that are not trained on but fit the temperature, chosen
            at random from the longer ones.
    """

    file: str
    labelled: bool = True
    labels: tuple[str, ...] = ()
    hold_out: Count = 0
    licence: str = ""
    origin: str = ""


class StageRows(_StrictModel):
    """What a stage learns from.

    Args:
        passes: passes of each labelled source over its rows in an epoch. With 0.3 the seed
            of the stage chooses a part of them.
        sentences: number of sentences of each source that are cut out of its texts and
            labelled by the teacher.
        templates: the template files of the rules; each gives the same number.
        soft: weight of the teacher's probabilities in the targets of labelled rows; the label has
            the rest. Texts too long for the teacher keep their labels.
        agreement: whether the weight of a source's labels is multiplied by how far they agree
            with the teacher: Cohen's kappa over the rows that are drawn, at least 0.
        noise: share of the texts that are changed after the teacher has read them (see
            `training.synth.augment`).
        groups: number of sentences about people of several groups. The target is the mean of the
            teacher's probabilities over all groups.
        taught_by: the plan's teacher, or the network itself as the stage begins.
    """

    passes: Mapping[str, Passes]
    sentences: Mapping[str, Count] = Field(default_factory=dict)
    rules: Count = 0
    templates: Annotated[
        tuple[Literal["behaviours", "everyday", "neutral", "service"], ...], Field(min_length=1)
    ] = ("behaviours",)
    soft: Share = 0.0
    agreement: bool = False
    noise: Share = 0.0
    groups: Count = 0
    taught_by: Literal["teacher", "itself"] = "teacher"
    expert: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _agreement(self) -> Self:
        if self.agreement and not self.soft:
            raise ValueError("agreement weighs labels beside the teacher: give soft too")
        return self

    @property
    def is_taught(self) -> bool:
        """Whether the targets include probabilities of a teacher or of the network itself."""
        return bool(self.soft or self.groups or any(self.sentences.values()))

    @property
    def asks_teacher(self) -> bool:
        """Whether the targets include probabilities of the teacher."""
        return self.is_taught and self.taught_by == "teacher"


class Stage(_StrictModel):
    """One run over rows of its own."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    rows: StageRows
    recipe: Recipe
    weight: Annotated[float, Field(ge=0.0)] = 0.0
    begin: Literal["last", "mean"] = "last"


class TeacherPlan(_StrictModel):
    """The larger network that labels texts.

    Args:
        recipe: how it learns; `max_length` is the longest text that it reads.
    """

    pretrained: Pretrained
    rows: StageRows
    recipe: Recipe

    @model_validator(mode="after")
    def _no_teacher(self) -> Self:
        if self.rows.is_taught:
            raise ValueError("the teacher has no teacher: leave out soft, sentences and groups")
        return self


class Plan(_StrictModel):
    """All stages of a checkpoint.

    Args:
        labels: names of the classes, in the order of the numbers in the files. The first and the
            last are opposites: sentences made by rule have one or the other.
        language: the code of the only language of the texts, such as `en`; the record of the
            checkpoint has it.
        keep_out: labelled files that the result is measured on. Rows of the sources that equal one
            of their texts by letters and digits are dropped.
        expert: a finished checkpoint that knows some of the classes better than the teacher does;
            None if no stage asks one. The teacher says how probable the other classes are, and the
            expert shares the rest.
    """

    labels: Annotated[tuple[str, ...], Field(min_length=2)]
    max_length: Annotated[int, Field(ge=8, le=512)]
    seed: Count = 0
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$")] | None = None
    keep_out: tuple[str, ...] = ()
    emoji: bool = False
    pretrained: Pretrained
    sources: Mapping[str, SourceFile]
    teacher: TeacherPlan | None = None
    expert: Pretrained | None = None
    stages: Annotated[tuple[Stage, ...], Field(min_length=1)]

    @property
    def used_sources(self) -> Set[str]:
        """Names of the sources that a stage or the teacher uses, in their order."""
        named = {name for _, rows, _ in self._parts for name in (*rows.passes, *rows.sentences)}
        return {name: None for name in self.sources if name in named}.keys()

    @property
    def _parts(self) -> list[tuple[str, StageRows, Recipe]]:
        """The name, the rows and the recipe of each stage and of the teacher."""
        parts = [(f"stage {stage.name}", stage.rows, stage.recipe) for stage in self.stages]
        if self.teacher:
            parts.append(("the teacher", self.teacher.rows, self.teacher.recipe))
        return parts

    @model_validator(mode="after")
    def _names_and_weights(self) -> Self:
        for part, rows, _ in self._parts:
            if not (rows.passes or rows.sentences or rows.rules or rows.groups):
                raise ValueError(f"{part}: has no rows: give passes, rules or sentences")
            unknown = {*rows.passes, *rows.sentences} - self.sources.keys()
            if unknown:
                raise ValueError(f"{part}: there is no source {', '.join(sorted(unknown))}")
            if len(set(rows.templates)) < len(rows.templates):
                raise ValueError(f"{part}: a file of templates is named twice")
            bare = [key for key in rows.passes if not self.sources[key].labelled]
            if bare:
                raise ValueError(f"{part}: {', '.join(bare)} has no labels to pass over")
            if rows.asks_teacher and self.teacher is None:
                raise ValueError(f"{part}: soft, sentences and groups need a [teacher]")
        if len({stage.name for stage in self.stages}) < len(self.stages):
            raise ValueError("two stages have the same name")
        if not any(stage.weight for stage in self.stages):
            raise ValueError("no stage has a weight, so there is no result")
        if not any(source.hold_out for source in self.sources.values()):
            raise ValueError("no source holds rows out, so there is nothing to calibrate by")
        return self

    @model_validator(mode="after")
    def _classes(self) -> Self:
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("labels: two classes have the same name")
        for name, source in self.sources.items():
            if not source.labels:
                continue
            strange = [label for label in source.labels if label not in self.labels]
            if strange or len(set(source.labels)) < max(2, len(source.labels)):
                raise ValueError(
                    f"source {name}: labels must be two or more of {', '.join(self.labels)}"
                )
            if source.hold_out and len(source.labels) < len(self.labels):
                raise ValueError(
                    f"source {name}: lacks classes of the plan, so it can hold no rows out"
                )
        return self

    @model_validator(mode="after")
    def _expert(self) -> Self:
        for stage in self.stages:
            rows = stage.rows
            if rows.expert and self.expert is None:
                raise ValueError(f"stage {stage.name}: expert needs an [expert]")
            untaught = set(rows.expert) - (
                rows.sentences.keys() if not rows.soft else {*rows.passes, *rows.sentences}
            )
            if untaught:
                raise ValueError(
                    f"stage {stage.name}: expert: {', '.join(sorted(untaught))} has no targets of "
                    "a teacher: give soft or sentences, or leave it out"
                )
        return self

    @model_validator(mode="after")
    def _neutral_by_rule(self) -> Self:
        used = {name for _, rows, _ in self._parts for name in rows.templates}
        for name in sorted(used & {"neutral", "service"}):
            if len(self.labels) != _WITH_NEUTRAL:
                raise ValueError(f"templates {name} need three labels, with neutral in the middle")
        return self

    @model_validator(mode="after")
    def _one_network(self) -> Self:
        for part, _, recipe in self._parts:
            unused = sorted(_ONLY_OF_RUNS & recipe.model_fields_set)
            if unused:
                raise ValueError(f"{part}: {unused[0]} decides nothing in a plan: leave it out")
        first = self.stages[0].recipe
        for stage in self.stages:
            for name in ("dropout", "attention_dropout"):
                wanted, found = getattr(first, name), getattr(stage.recipe, name)
                if found != wanted:
                    raise ValueError(
                        f"stage {stage.name}: {name} is {found}, must be {wanted} as in the first "
                        "stage, which makes the network"
                    )
        return self

    @model_validator(mode="after")
    def _begins_with_something(self) -> Self:
        first = self.stages[0]
        teaches_itself = first.rows.is_taught and first.rows.taught_by == "itself"
        if teaches_itself and not self.pretrained.classifies:
            raise ValueError(f"stage {first.name}: the network has learnt nothing to teach yet")
        weight = self.pretrained.weight
        for stage in self.stages:
            if stage.begin == "mean" and not weight:
                raise ValueError(f"stage {stage.name}: no stage before it has a weight in a mean")
            weight += stage.weight
        return self


def load_plan(path: Path) -> Plan:
    """Reads a plan; an error lists every fault."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise RecipeError(f"plan {path}: cannot be read: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"plan {path}: is not TOML: {error}") from error
    try:
        return Plan.model_validate(content)
    except ValidationError as error:
        raise RecipeError(f"plan {path}: {describe_faults(error)}") from error
