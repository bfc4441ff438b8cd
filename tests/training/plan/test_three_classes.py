"""Plans of three classes, with sources that know only two of them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model import load_predictor, open_checkpoint
from model.files import digest
from tests.builders import tiny_checkpoint, tiny_config
from tests.training.tiny_plans import PLAN, TinyPlan, write_plan
from tests.training.tiny_runs import Refusal
from training.__main__ import main
from training.errors import RecipeError
from training.plan.data import PlanData, read_plan_data
from training.plan.plan import load_plan
from training.plan.teacher import _key

TEXT = (
    PLAN.replace(
        'labels = ["negative", "positive"]', 'labels = ["negative", "neutral", "positive"]'
    )
    .replace('file = "short.tsv"', 'file = "three.tsv"')
    .replace(
        'file = "more/other.tsv"', 'file = "more/other.tsv"\nlabels = ["negative", "positive"]'
    )
    .replace("soft = 0.5", "soft = 0.5\nagreement = true\ngroups = 2")
    .replace("short = 2.0", "short = 2.0\nother = 1.0")
    .replace("learning_rate = 2e-3", "learning_rate = 2e-3\nconsistency = 0.5")
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyPlan:
    tiny = write_plan(tmp_path_factory.mktemp("plan"), TEXT)
    words = ("dull", "plain", "good")
    labels = ("negative", "neutral", "positive")
    rows = [
        f"the film that we saw was {words[n % 3]}, number {n}\t{labels[n % 3]}" for n in range(240)
    ]
    (tiny.data / "three.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    rows = [f"it was {words[n % 2 * 2]} {n}\t{n % 2}" for n in range(60)]
    (tiny.data / "more" / "other.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return tiny


def test_a_source_of_two_classes_gets_the_numbers_of_the_plan(tiny: TinyPlan) -> None:
    data = read_plan_data(load_plan(tiny.plan), tiny.data)

    assert set(data.pool.label_ids["other"]) == {0, 2}
    assert data.pool.known == {"other": (0, 2)}
    assert data.pool.num_labels == 3
    assert data.held_out.labels == ("negative", "neutral", "positive")


def test_what_is_measured_on_is_kept_out(tiny: TinyPlan, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    text = tiny.plan.read_text()
    plan.write_text(text.replace("seed = 3", 'seed = 3\nkeep_out = ["measured.tsv"]', 1))
    texts = [
        "The film, that we saw, was GOOD - number 5",  # a row of "three"
        "it was dull: 8",  # a row of "other"
        "A dull plot was it too!",  # a part of rows alone
        "The film was good, number 7. A dull plot was it too!",  # a row of "bare"
    ]
    rows = [f"{text}\t{n % 2}" for n, text in enumerate(texts)]
    (tiny.data / "measured.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")

    whole = read_plan_data(load_plan(tiny.plan), tiny.data)
    rest = read_plan_data(load_plan(plan), tiny.data)

    def every(data: PlanData) -> set[str]:
        return {text for texts in data.pool.texts.values() for text in texts} | set(
            data.held_out.texts
        )

    assert every(whole) - every(rest) >= {
        "the film that we saw was good, number 5",
        "it was dull 8",
        "The film was good, number 7. A dull plot was it too!",
    }
    assert len(rest.pool.texts["other"]) == len(whole.pool.texts["other"]) - 1
    assert len(rest.pool.texts["bare"]) == len(whole.pool.texts["bare"]) - 1


def test_a_source_without_some_class_holds_nothing_out(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    text = TEXT.replace('labels = ["negative", "positive"]\n', "hold_out = 5\n\\0", 1)
    path.write_text(
        text.replace("\\0", 'labels = ["negative", "positive"]\n').format(
            student="a" * 64, teacher="b" * 64
        )
    )

    with pytest.raises(RecipeError, match="source other: lacks classes of the plan"):
        load_plan(path)


EXPERT = """
[expert]
name = "tiny expert"
licence = "none"
sha256 = "{expert}"
classifies = true
"""


def with_expert(tiny: TinyPlan, tmp_path: Path, *, sha256: str) -> list[str]:
    """The words of a plan in which an expert reads the rows and sentences of two sources."""
    plan = tmp_path / "plan.toml"
    text = tiny.plan.read_text()
    text = text.replace("[[stages]]", EXPERT.format(expert=sha256) + "[[stages]]", 1)
    text = text.replace("agreement = true", 'agreement = true\nexpert = ["other", "bare"]')
    plan.write_text(text)
    words = tiny.command(tmp_path / "out")
    words[words.index("--plan") + 1] = str(plan)
    return words


def test_an_expert_of_two_classes_reads_the_sources_it_is_told(
    tiny: TinyPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expert = tiny_checkpoint(tmp_path / "expert", seed=5)
    words = with_expert(tiny, tmp_path, sha256=digest(expert / "model.safetensors"))

    assert main([*words, "--expert", str(expert)]) == 0

    assert "  recall: negative " in capsys.readouterr().out
    said = load_file(tmp_path / "out.run" / "expert-labels.safetensors")
    network = load_predictor(
        open_checkpoint(expert), device=torch.device("cpu"), dtype=torch.float32
    )
    # Half of the 60 rows of "other", and 10 sentences.
    assert said["probabilities"].shape == (40, 2)
    data = read_plan_data(load_plan(tmp_path / "plan.toml"), tiny.data)
    heard = [text for text in data.pool.texts["other"] if _key(text) in said["keys"].tolist()]
    assert len(heard) == 30
    answers = [network.predict([network.encode(text)])[0].probabilities for text in heard]
    places = [said["keys"].tolist().index(_key(text)) for text in heard]
    expected = torch.tensor([list(answer.values()) for answer in answers])
    assert torch.allclose(said["probabilities"][places], expected, atol=1e-5)
    record = json.loads((tmp_path / "out" / "headlight.json").read_text())
    assert record["recipe"]["plan"]["expert"]["name"] == "tiny expert"
    assert record["recipe"]["plan"]["sources"]["other"]["labels"] == ["negative", "positive"]
    assert record["labels"] == ["negative", "neutral", "positive"]
    said = load_file(tmp_path / "out.run" / "teacher-labels.safetensors")
    assert said["probabilities"].shape[1] == 3


@pytest.mark.parametrize(
    ("labels", "given", "fault"),
    [
        (("negative", "positive"), "", "--plan needs --expert too"),
        (("negative", "positive"), "student", "model.safetensors has the SHA-256 "),
        (("bad", "good"), "expert", "expert has the label bad, the plan has negative, neutral, "),
    ],
)
def test_an_expert_that_does_not_fit_is_told(
    tiny: TinyPlan,
    tmp_path: Path,
    refusal: Refusal,
    labels: tuple[str, ...],
    given: str,
    fault: str,
) -> None:
    expert = tiny_checkpoint(tmp_path / "expert", seed=5, config=tiny_config(labels=labels))
    words = with_expert(tiny, tmp_path, sha256=digest(expert / "model.safetensors"))
    folders = {"": [], "student": [str(tiny.student)], "expert": [str(expert)]}[given]

    assert fault in refusal([*words, *(w for folder in folders for w in ("--expert", folder))])
    assert not (tmp_path / "out").exists()
