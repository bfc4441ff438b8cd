"""Which changes have a stage done again, and which do not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from model.files import TOKENIZER_FILES
from tests.training.tiny_plans import PLAN
from training.plan import fingerprint
from training.plan.fingerprint import Fingerprints
from training.plan.plan import Plan, load_plan
from training.plan.pool import Pool
from training.synth.templates import read_templates

TEXT = PLAN.format(student="a" * 64, teacher="b" * 64)
POOL = Pool(
    texts={"short": ["one", "two"], "other": ["three"], "bare": ["four", "five"]},
    label_ids={"short": [0, 1], "other": [1]},
)
TEACHER, BROAD, SHARP = "teacher", "broad", "sharp"
ALL = {TEACHER, BROAD, SHARP}


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("student", "teacher")}
    for folder in found.values():
        folder.mkdir()
        (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    return found


def plan_of(folder: Path, text: str) -> Plan:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return load_plan(path)


def fingerprints(
    folders: dict[str, Path], text: str = TEXT, pool: Pool = POOL, device: str = "cpu"
) -> dict[str, str]:
    plan = plan_of(folders["student"].parent, text)
    found = Fingerprints(plan, pool, **folders, shared={"device": device, "bfloat16": False})
    assert plan.teacher is not None
    return {
        TEACHER: found.of_teacher(plan.teacher),
        BROAD: found.of_stage(0),
        SHARP: found.of_stage(1),
    }


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("short = 2.0", "short = 1.0", {SHARP}),
        ("other = 0.5", "other = 0.25", {BROAD, SHARP}),
        ("short = 1.0\nother = 0.5", "other = 0.5\nshort = 1.0", {BROAD, SHARP}),
        ("[teacher.recipe]\nmax_length = 16", "[teacher.recipe]\nmax_length = 12", ALL),
        ("emoji = true", "emoji = false", {BROAD, SHARP}),
        ("a" * 64, "c" * 64, {BROAD, SHARP}),
        ("b" * 64, "c" * 64, ALL),
        # What people alone read, or what decides about the result and not about a stage.
        ('licence = "none"', 'licence = "MIT"', set()),
        ('name = "tiny BERT"', 'name = "a tiny BERT"', set()),
        ("weight = 1.0", "weight = 2.0", set()),
        ("[sources.bare]", '[sources.unused]\nfile = "x.tsv"\n[sources.bare]', set()),
        ("max_length = 16\nseed", "max_length = 20\nseed", set()),
    ],
)
def test_changes_of_a_plan(folders: dict[str, Path], old: str, new: str, again: set[str]) -> None:
    assert old in TEXT

    assert changed(fingerprints(folders), fingerprints(folders, TEXT.replace(old, new))) == again


@pytest.mark.parametrize("name", ["config.json", *TOKENIZER_FILES])
@pytest.mark.parametrize(("folder", "again"), [("student", {BROAD, SHARP}), ("teacher", ALL)])
def test_every_file_that_decides_the_tokens_counts(
    folders: dict[str, Path], name: str, folder: str, again: set[str]
) -> None:
    before = fingerprints(folders)
    (folders[folder] / name).write_text('{"other": 1}', encoding="utf-8")

    assert changed(before, fingerprints(folders)) == again


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda pool: replace(pool, texts={**pool.texts, "short": ["one", "zwei"]}), ALL),
        (lambda pool: replace(pool, label_ids={**pool.label_ids, "short": [1, 1]}), ALL),
        (lambda pool: replace(pool, texts={**pool.texts, "short": ["onet", "wo"]}), ALL),
        (lambda pool: replace(pool, texts={**pool.texts, "other": ["drei"]}), {BROAD, SHARP}),
        (lambda pool: replace(pool, texts={**pool.texts, "bare": ["four"]}), {BROAD, SHARP}),
        (lambda pool: replace(pool, texts={**pool.texts, "unused": ["six"]}), set()),
    ],
)
def test_changes_of_the_rows(
    folders: dict[str, Path], change: Callable[[Pool], Pool], again: set[str]
) -> None:
    assert changed(fingerprints(folders), fingerprints(folders, pool=change(POOL))) == again


@pytest.mark.parametrize(("folder", "again"), [("student", {BROAD, SHARP}), ("teacher", ALL)])
def test_changes_of_a_tokenizer(folders: dict[str, Path], folder: str, again: set[str]) -> None:
    before = fingerprints(folders)
    (folders[folder] / "tokenizer.json").write_text("[]", encoding="utf-8")

    assert changed(before, fingerprints(folders)) == again


def test_another_machine(folders: dict[str, Path]) -> None:
    assert changed(fingerprints(folders), fingerprints(folders, device="cuda")) == ALL


def test_a_stage_without_a_teacher_does_not_depend_on_one(folders: dict[str, Path]) -> None:
    alone = TEXT.replace("soft = 0.5\n", "").replace("[stages.rows.sentences]\nbare = 10\n", "")
    slower = alone.replace("learning_rate = 5e-3\nkeep", "learning_rate = 1e-3\nkeep", 1)

    assert changed(fingerprints(folders, alone), fingerprints(folders, slower)) == {TEACHER}


def test_another_expert_has_the_stages_that_ask_it_done_again(folders: dict[str, Path]) -> None:
    expert = f'''
[expert]
name = "expert"
licence = "none"
sha256 = "{"e" * 64}"

[[stages]]'''
    asked = TEXT.replace("[[stages]]", expert, 1).replace(
        "rules = 24", 'rules = 24\nexpert = ["other"]', 1
    )
    idle = TEXT.replace("[[stages]]", expert, 1)

    assert changed(fingerprints(folders), fingerprints(folders, idle)) == set()
    assert changed(fingerprints(folders, idle), fingerprints(folders, asked)) == {BROAD, SHARP}
    other = asked.replace("e" * 64, "f" * 64)
    assert changed(fingerprints(folders, asked), fingerprints(folders, other)) == {BROAD, SHARP}


@pytest.mark.parametrize(("name", "again"), [("everyday", set()), ("behaviours", {BROAD, SHARP})])
def test_changes_of_templates(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, name: str, again: set[str]
) -> None:
    before = fingerprints(folders)
    monkeypatch.setattr(
        fingerprint, "read_templates", lambda each: read_templates(each) + "#" * (each == name)
    )

    assert changed(before, fingerprints(folders)) == again


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [("weight = 1.0", "weight = 2.0", {SHARP}), ("weight = 3.0", "weight = 4.0", set())],
)
def test_a_mean_depends_on_the_weights_of_the_stages_before_it(
    folders: dict[str, Path], old: str, new: str, again: set[str]
) -> None:
    begins = 'name = "sharp"\nbegin = "mean"\nweight = 3.0'
    text = TEXT.replace("weight = 1.0\n", "").replace('name = "sharp"', begins)
    text = text.replace('name = "broad"', 'name = "broad"\nweight = 1.0')

    assert changed(fingerprints(folders, text), fingerprints(folders, text.replace(old, new))) == (
        again
    )
