"""Stages that begin with a mean, and are taught by the network that they begin with."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from tests.training.tiny_plans import PLAN, TinyPlan, write_plan
from training.__main__ import main
from training.fit.initial import init_from_pretrained
from training.measure.inference import predict_logits
from training.plan.data import read_plan_data
from training.plan.plan import load_plan
from training.plan.stages import average_weights, plan_tokenizer
from training.plan.teacher import TeacherLabels
from training.synth.templates import make_group_sets

# So low a rate that no weight moves: what the stage leaves is what it began with.
EVEN = """
[[stages]]
name = "even"
begin = "mean"
weight = 4.0
[stages.rows]
taught_by = "itself"
soft = 0.5
groups = 3
[stages.rows.passes]
short = 1.0
[stages.rows.sentences]
bare = 5
[stages.recipe]
max_length = 16
epochs = 1
batch_size = 16
learning_rate = 1e-30
keep = "last"
seed = 9
"""
TEXT = PLAN.replace('name = "broad"\n', 'name = "broad"\nweight = 3.0\n') + EVEN


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyPlan:
    return write_plan(tmp_path_factory.mktemp("plan"), TEXT)


@pytest.fixture(scope="module")
def run_dir(tiny: TinyPlan) -> Path:
    output = tiny.plan.parent / "out"
    assert main(tiny.command(output)) == 0
    return output.with_name("out.run")


def test_a_stage_begins_with_the_mean_of_all_before_it(run_dir: Path) -> None:
    broad, sharp, even = (
        load_file(run_dir / f"{name}.safetensors") for name in ("1-broad", "2-sharp", "3-even")
    )

    mean = average_weights([(3.0, broad), (1.0, sharp)])
    assert even.keys() == mean.keys()
    assert all(torch.equal(even[name], mean[name]) for name in mean)
    assert not any(torch.equal(broad[name], even[name]) for name in mean if "weight" in name)


def test_it_teaches_itself_what_it_thought_before(tiny: TinyPlan, run_dir: Path) -> None:
    plan = load_plan(tiny.plan)
    start = init_from_pretrained(plan.stages[0].recipe, tiny.student, plan.labels)
    start.network.load_state_dict(load_file(run_dir / "3-even.safetensors"))
    tokenizer = plan_tokenizer(plan, tiny.student, max_length=16)
    data = read_plan_data(plan, tiny.data)
    labels = kept_labels(run_dir / "3-even-labels.safetensors")
    short = [text for text in data.pool.texts["short"] if text in labels]
    groups = [text for told in make_group_sets(3, seed=9) for text in told]
    texts = [*short, *groups]

    logits = predict_logits(
        start.network.eval(),
        [tokenizer.encode(text) for text in texts],
        pad_token_id=tokenizer.pad_token_id,
        device=torch.device("cpu"),
    )

    assert len(short) > 100
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(labels.of(texts), expected, atol=1e-5)


def kept_labels(path: Path) -> TeacherLabels:
    with safe_open(path, "numpy") as file:
        return TeacherLabels(path, file.metadata()["teacher"])


def test_the_mean_may_hold_the_checkpoint_that_the_plan_began_with(tmp_path: Path) -> None:
    weighted = 'sha256 = "{student}"\nclassifies = true\nweight = 3.0'
    started = PLAN.replace('sha256 = "{student}"', weighted).replace(
        "emoji = true", "emoji = false"
    )
    # Nobody asks the teacher, so it is not trained.
    started = started.replace("soft = 0.5\n", "").replace(
        "[stages.rows.sentences]\nbare = 10\n", ""
    )
    tiny = write_plan(tmp_path, started)
    output = tmp_path / "out"
    assert main(tiny.command(output, "--store-dtype", "float32")) == 0

    plan = load_plan(tiny.plan)

    def state(folder: Path) -> dict[str, torch.Tensor]:
        network = init_from_pretrained(plan.stages[0].recipe, folder, plan.labels).network
        return network.state_dict()

    begun, found = state(tiny.student), state(output)
    sharp = load_file(output.with_name("out.run") / "2-sharp.safetensors")
    mean = average_weights([(3.0, begun), (1.0, sharp)])
    assert found.keys() == mean.keys()
    for name, tensor in mean.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-7)
    moved = [name for name in mean if not torch.equal(begun[name], sharp[name])]
    assert len(moved) > len(mean) / 2
