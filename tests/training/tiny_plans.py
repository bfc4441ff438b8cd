"""The smallest plan that really runs: a tiny BERT, a tiny MPNet that teaches it, made-up rows."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import MPNetConfig, MPNetModel

from model.files import digest
from tests.builders import VOCABULARY, tiny_checkpoint, tiny_tokenizer
from tests.training.tiny_runs import write_sentences

PLAN = """\
labels = ["negative", "positive"]
max_length = 16
seed = 3
emoji = true
language = "en"

[pretrained]
name = "tiny BERT"
licence = "none"
sha256 = "{student}"

[sources.short]
file = "short.tsv"
hold_out = 20
[sources.other]
file = "more/other.tsv"
[sources.bare]
file = "bare.txt"
labelled = false

[teacher.pretrained]
name = "tiny MPNet"
licence = "none"
sha256 = "{teacher}"
[teacher.rows.passes]
short = 1.0
[teacher.recipe]
max_length = 16
epochs = 1
batch_size = 16
learning_rate = 5e-3
keep = "last"

[[stages]]
name = "broad"
[stages.rows]
rules = 24
soft = 0.5
noise = 0.5
[stages.rows.passes]
short = 1.0
other = 0.5
[stages.rows.sentences]
bare = 10
[stages.recipe]
max_length = 16
epochs = 2
batch_size = 16
learning_rate = 5e-3
keep = "last"

[[stages]]
name = "sharp"
weight = 1.0
[stages.rows.passes]
short = 2.0
[stages.recipe]
max_length = 12
epochs = 1
batch_size = 16
learning_rate = 2e-3
keep = "last"
"""


@dataclass(frozen=True, slots=True)
class TinyPlan:
    """Where everything of a plan lies.

    Args:
        plan: the TOML file.
        data: the folder of the sources.
        student: folder of the tiny BERT.
        teacher: folder of the tiny MPNet.
    """

    plan: Path
    data: Path
    student: Path
    teacher: Path

    def command(self, output: Path, *options: str) -> list[str]:
        """The words behind `headlight-train`."""
        places = {
            "--plan": self.plan,
            "--data": self.data,
            "--init-from": self.student,
            "--teacher": self.teacher,
            "--output": output,
        }
        words = [str(word) for pair in places.items() for word in pair]
        return ["fit", *words, "--dtype", "float32", "--threads", "1", *options]


def write_plan(folder: Path, text: str = PLAN) -> TinyPlan:
    """Writes networks, rows and plan below a folder."""
    data = folder / "data"
    (data / "more").mkdir(parents=True)
    write_sentences(data / "short.tsv", rows=200)
    write_sentences(data / "more" / "other.tsv", rows=60, seed=4)
    bare = [f"The film was good, number {n}. A dull plot was it too!" for n in range(30)]
    (data / "bare.txt").write_text("\n".join(bare) + "\n", encoding="utf-8")
    student = tiny_checkpoint(folder / "student")
    teacher = write_mpnet(folder / "teacher")
    plan = folder / "plan.toml"
    digests = {
        name: digest(path / "model.safetensors")
        for name, path in (("student", student), ("teacher", teacher))
    }
    plan.write_text(text.format(**digests), encoding="utf-8")
    return TinyPlan(plan, data, student, teacher)


def tiny_mpnet(seed: int = 0) -> MPNetModel:
    """Hidden size 8, 2 heads, 2 layers."""
    torch.manual_seed(seed)
    config = MPNetConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=40,
        pad_token_id=1,
        layer_norm_eps=1e-5,
        initializer_range=0.3,
    )
    network: MPNetModel = MPNetModel(config, add_pooling_layer=False)
    network.train(False)
    return network


def write_mpnet(folder: Path) -> Path:
    """Saves a tiny MPNet with a tokenizer, as transformers does; returns the folder."""
    tiny_mpnet().save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tiny_tokenizer().to_json(), encoding="utf-8")
    # MPNet pads with id 1, which is [UNK] here: in a tiny vocabulary it hurts nobody.
    options = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")
    return folder
