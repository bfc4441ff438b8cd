"""Plans: what they may hold, and what is refused."""

from pathlib import Path

import pytest

from tests.training.tiny_plans import PLAN
from training.errors import RecipeError
from training.plan.plan import load_plan

DIGESTS = {"student": "a" * 64, "teacher": "b" * 64}
TEXT = PLAN.format(**DIGESTS)
EXPERT = f"""
[expert]
name = "expert"
licence = "none"
sha256 = "{"c" * 64}"
classifies = true
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_checkpoint_that_classifies_may_teach_itself_at_once(tmp_path: Path) -> None:
    text = TEXT.replace("soft = 0.5", 'taught_by = "itself"', 1)
    (digest,) = (line for line in text.splitlines() if "a" * 64 in line)

    plan = load_plan(write(tmp_path, text.replace(digest, f"{digest}\nclassifies = true")))

    assert plan.stages[0].rows.taught_by == "itself"


RATE = "learning_rate = 2e-3"
FILE = 'file = "short.tsv"'
LABELS = 'labels = ["negative", "positive"]'
RULES = "[stages.rows]\nrules = 24"
PASSES = "[stages.rows.passes]\nshort = 2.0"
RECIPE = "[teacher.recipe]"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("other = 0.5", "others = 0.5", "stage broad: there is no source others"),
        ("other = 0.5", "bare = 0.5", "stage broad: bare has no labels to pass over"),
        ('name = "sharp"', 'name = "broad"', "two stages have the same name"),
        ("weight = 1.0", "weight = 0.0", "no stage has a weight, so there is no result"),
        ("hold_out = 20", "hold_out = 0", "no source holds rows out, so there is nothing to"),
        (RECIPE, f"[teacher.rows.sentences]\nbare = 3\n{RECIPE}", "the teacher has no teacher:"),
        (
            "[teacher.rows.passes]",
            "[teacher.rows]\ngroups = 4\n[teacher.rows.passes]",
            "no teacher:",
        ),
        ("soft = 0.5", "soft = 1.5", "stages.0.rows.soft: must be at most"),
        ("max_length = 16\nseed", "max_length = 513\nseed", "max_length: must be at most"),
        ("a" * 64, "a" * 63, "pretrained.sha256: must match the pattern"),
        ("soft = 0.5", 'taught_by = "itself"', "stage broad: the network has learnt nothing to"),
        ("a" * 64 + '"', "a" * 64 + '"\nweight = 1.0', "an encoder that does not classify has no"),
        ('name = "sharp"', 'name = "sharp"\nbegin = "mean"', "stage sharp: no stage before"),
        ("rules = 24", 'templates = ["everyday", "everyday"]', "templates is named twice"),
        (RATE, f"{RATE}\ndropout = 0.3", "stage sharp: dropout is 0.3, must be 0.1"),
        (RATE, f"{RATE}\nattention_dropout = 0.0", "attention_dropout is 0.0, must be 0.1"),
        (RATE, f"{RATE}\nvalidation_share = 0.3", "sharp: validation_share decides nothing"),
        (RECIPE, f'{RECIPE}\nhold_out = "last"', "the teacher: hold_out decides nothing"),
        (PASSES, "[stages.rows.passes]", "stage sharp: has no rows"),
        (FILE, f'{FILE}\nlabels = ["negative", "good"]', "short: labels must be two or more of "),
        (FILE, f'{FILE}\nlabels = ["negative"]', "short: labels must be two or more of "),
        (LABELS, LABELS.replace("posi", "nega"), "labels: two classes have the same name"),
        (PASSES, f"[stages.rows]\nagreement = true\n{PASSES}", "agreement weighs labels beside"),
        (RULES, f'{RULES}\ntemplates = ["neutral"]', "templates neutral need three labels"),
        (RULES, f'{RULES}\ntemplates = ["service"]', "templates service need three labels"),
        (RULES, f'{RULES}\nexpert = ["short"]', "stage broad: expert needs an [expert]"),
        (PASSES, f'[stages.rows]\nexpert = ["short"]\n{PASSES}\n{EXPERT}', "short has no targets"),
        ("seed = 3", "seeds = 3", "seeds: is not known: leave it out"),
        ("seed = 3", "seed = ", "is not TOML"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert TEXT.count(old) >= 1

    with pytest.raises(RecipeError) as refused:
        load_plan(write(tmp_path, TEXT.replace(old, new, 1)))

    assert fault in str(refused.value)
    assert str(refused.value).startswith(f"plan {tmp_path / 'plan.toml'}: ")


RECIPES = Path(__file__).parents[3] / "training" / "plan" / "recipes"


@pytest.mark.parametrize(
    ("name", "held_out"), [("default", 3100), ("two-classes", 2500), ("neutral", 3100)]
)
def test_the_plans_of_the_models_use_every_source(name: str, held_out: int) -> None:
    plan = load_plan(RECIPES / f"{name}.toml")

    assert plan.used_sources == plan.sources.keys()
    assert sum(source.hold_out for source in plan.sources.values()) == held_out


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("two-classes", "two-classes-steady"),
        ("neutral", "neutral-steady"),
        ("neutral-steady", "default"),
    ],
)
def test_a_second_plan_goes_on_with_the_rows_of_the_first(first: str, second: str) -> None:
    begun, later = (load_plan(RECIPES / f"{name}.toml") for name in (first, second))

    # So both hold the same rows out, and `test_evaluation_sets` needs to read only the first.
    assert begun.sources == later.sources
    assert (begun.keep_out, begun.seed, begun.labels) == (later.keep_out, later.seed, later.labels)
    assert later.pretrained.classifies


@pytest.mark.parametrize("name", ["neutral-steady", "default"])
def test_the_expert_of_three_classes_reads_no_tweets(name: str) -> None:
    plan = load_plan(RECIPES / f"{name}.toml")

    assert plan.expert is not None
    # The expert has learnt from tweets that the result is measured on.
    read = {source for stage in plan.stages for source in stage.rows.expert}
    assert not any("tweets" in source or "brands" in source for source in read)


def test_stages_that_ask_a_teacher_need_one(tmp_path: Path) -> None:
    head, _, rest = TEXT.partition("[teacher.pretrained]")
    text = head + rest[rest.index("[[stages]]") :]

    with pytest.raises(
        RecipeError, match=r"stage broad: soft, sentences and groups need a \[teacher\]"
    ):
        load_plan(write(tmp_path, text))


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read: No such file or directory"):
        load_plan(tmp_path / "none.toml")
