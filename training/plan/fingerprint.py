"""Fingerprints what decides the weights of a stage; a stage with another one is run again."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from model.files import CONFIG, MANIFEST, TOKENIZER_FILES, digest
from training.plan.plan import Plan, StageRows, TeacherPlan
from training.plan.pool import Pool
from training.synth.templates import read_templates

# The files of a pretrained folder that are read, beside the weights, whose digest is in the plan.
_READ = (CONFIG, *TOKENIZER_FILES)
# Another implementation rounds differently and has other names of weights.
_TEACHER_NETWORK = "transformers.MPNetModel"
# Only people read these.
_NAMES = {"pretrained": {"name", "licence"}}


class Fingerprints:
    """Fingerprints of the teacher and of every stage of a plan; all depend on `shared`."""

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        *,
        student: Path,
        teacher: Path | None,
        expert: Path | None = None,
        shared: dict[str, Any],
    ) -> None:
        self._plan = plan
        self._pool = pool
        self._student = _of_folder(student)
        self._teacher = _of_folder(teacher) if teacher is not None else {}
        self._expert = _of_folder(expert, (*_READ, MANIFEST)) if expert is not None else {}
        self._shared = shared
        self._sources: dict[str, str] = {}

    def of_teacher(self, teacher: TeacherPlan) -> str:
        """Fingerprints the fitted teacher, and so its answers."""
        return _seal(
            {
                **self._shared,
                "network": _TEACHER_NETWORK,
                "plan": teacher.model_dump(mode="json", exclude_defaults=True, exclude=_NAMES),
                "files": self._teacher,
                **self._of_rows([teacher.rows]),
            }
        )

    def of_expert(self) -> str:
        """Fingerprints the expert, and so its answers."""
        weights = self._plan.expert and self._plan.expert.sha256
        return _seal({**self._shared, "weights": weights, "files": self._expert})

    def of_stage(self, number: int) -> str:
        """Fingerprints the weights that a stage leaves."""
        stages = self._plan.stages[: number + 1]
        # Without defaults, so that a new option changes no plan that does not use it.
        plans = [stage.model_dump(mode="json", exclude_defaults=True) for stage in stages]
        means = [at for at, stage in enumerate(stages) if stage.begin == "mean"]
        # The weight of a stage in the result matters only to stages that begin with a mean.
        for plan in plans[max(means, default=0) :]:
            plan.pop("weight", None)
        begun = self._plan.pretrained.weight if means else 0.0
        teacher = self._plan.teacher if any(s.rows.asks_teacher for s in stages) else None
        return _seal(
            {
                **self._shared,
                **({"begun": begun} if begun else {}),
                **({"expert": self.of_expert()} if any(s.rows.expert for s in stages) else {}),
                "labels": self._plan.labels,
                "emoji": self._plan.emoji,
                "weights": self._plan.pretrained.sha256,
                "files": self._student,
                "stages": plans,
                "teacher": None if teacher is None else self.of_teacher(teacher),
                **self._of_rows([stage.rows for stage in stages]),
            }
        )

    def _of_rows(self, every: Sequence[StageRows]) -> dict[str, dict[str, str]]:
        sources = dict.fromkeys(name for rows in every for name in (*rows.passes, *rows.sentences))
        templates = dict.fromkeys(name for rows in every for name in _templates_of(rows))
        return {
            "sources": {name: self._of_source(name) for name in sources},
            "templates": {name: _of_text(read_templates(name)) for name in templates},
        }

    def _of_source(self, name: str) -> str:
        if name not in self._sources:
            fingerprint = of_rows(self._pool.texts[name], self._pool.label_ids.get(name, ()))
            known = self._pool.known.get(name)
            self._sources[name] = (
                fingerprint if known is None else _of_text(f"{fingerprint} {known}")
            )
        return self._sources[name]


def of_rows(texts: Sequence[str], label_ids: Sequence[int]) -> str:
    """Fingerprints texts and their classes, in their order."""
    hasher = sha256()
    for text in texts:
        hasher.update(f"{len(text)} {text}".encode())
    hasher.update(repr(tuple(label_ids)).encode())
    return hasher.hexdigest()


def _templates_of(rows: StageRows) -> Sequence[str]:
    """Returns the template files that the rows of a stage are made from."""
    return (*(rows.templates if rows.rules else ()), *(("groups",) if rows.groups else ()))


def _of_folder(folder: Path, names: Sequence[str] = _READ) -> dict[str, str]:
    return {name: digest(folder / name) for name in names if (folder / name).is_file()}


def _of_text(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _seal(content: dict[str, Any]) -> str:
    # Keys unsorted: the order of sources decides which rows are drawn.
    return _of_text(json.dumps(content))
