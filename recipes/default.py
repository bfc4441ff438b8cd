"""Makes a checkpoint as `checkpoints/default` is: teacher, student, steady, calibrate.

    python -m recipes.default --data data --mpnet mpnet-base --minilm MiniLM-L6 \
        --output checkpoints/new
    python -m recipes.default --data data --start checkpoints/default --output checkpoints/new
    python -m recipes.default --tiny --output tiny

1. **Teacher.** MPNet-base learns all labelled sets at once, of three classes and of two.
2. **Student.** MiniLM-L6 learns from labels, softened by the teacher, and from sentences of
   reviews, which only the teacher labels.
3. **Steady.** Further passes in which changes that should not matter change no answer: typos,
   names, groups of people. The result is a mean of the weights of both.
4. **Calibrate.** The validation rows choose a temperature for three classes and one for the choice
   between `negative` and `positive`; they also measure int8 beside float32.

Each stage leaves a file in the folder OUTPUT.work, and is skipped if its file is there. Ctrl-C
saves the state of a stage. To make a stage again, remove its file and those of later stages.

With `--start`, a checkpoint takes the place of the first two stages. It is its own teacher, so that
it forgets little (Li and Hoiem 2016, "Learning without forgetting"), and the third stage is short:
20 minutes of one core with AVX-512. The weights that ship come from it; those that it started with
come from plans of several stages, which lie at commit a023732 in `training/plan/recipes`. **The
first two stages have not run at full size.** `--tiny` runs all of them: tiny networks with random
weights, on made-up sentences.

It needs the extras `train` and `teacher`, and below `--data` the files of `sources.csv` and
`KEEP_OUT`.
"""

import argparse
import copy
import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from model.atomic import remove_folder, write_whole
from model.cli.progress import say
from model.cli.signals import Interruption, noted_signals
from model.errors import ModelError
from model.files import WEIGHTS, digest
from model.text_model import load
from model.tokenization.reader import load_tokenizer
from model.tokenization.tokenizer import Tokenizer
from recipes.data import LABELS, Data, Source, read_data, read_sources
from recipes.emoji import read_emoji
from recipes.mpnet import load_mpnet
from recipes.rows import Rows, about_people, by_rule, from_reviews, join, labelled, soften, written
from recipes.teacher import Teacher
from recipes.templates import read_examples
from training.data.augment import perturb_all
from training.data.vocabulary import train_tokenizer
from training.device import Accelerator, choose_accelerator
from training.errors import RecipeError, ResumeError, TrainingError
from training.fit.export import write_checkpoint
from training.fit.initial import InitialModel, init_from_pretrained
from training.fit.recipe import Recipe
from training.fit.rows import encode_rows
from training.fit.state import has_state
from training.fit.trainer import Trainer
from training.measure.evaluate import record_int8, record_to_text

# ---- What it learns from: recipes/sources.csv says how often each stage passes over each file.

SOURCES = read_sources()
# The result is measured on these: no text of them is learnt.
KEEP_OUT = (
    *("three/tweets_dev.tsv.gz", "three/reddit_dev.tsv.gz", "three/sst_dev.tsv.gz"),
    *("three/news_dev.tsv.gz", "three/hotel_dev.tsv.gz", "sst/dev.tsv.gz", "uci/amazon.tsv.gz"),
    *("uci/imdb.tsv.gz", "uci/yelp.tsv.gz", "imdb/test.tsv.gz"),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is learnt.

    Args:
        validation: the most validation rows of a source.
        sentences: sentences of each file of reviews, for the student and the steady stage.
        rules: sentences made by rule, of the teacher, the student and the steady stage.
        groups: sentences about people, each for all groups of them.
        recipe: changes of each recipe.
        passes: share of the passes of `sources.csv`.
        written: passes over the sentences that were written one by one.
    """

    validation: int
    sentences: tuple[int, int]
    rules: tuple[int, int, int]
    groups: int
    recipe: Mapping[str, int | float]
    passes: float = 1.0
    written: int = 3


FULL = Sizes(600, (200_000, 22_000), (4_000, 12_000, 12_000), 800, {})
SHORT = Sizes(
    *(600, (0, 4_000), (0, 0, 3_000), 300),
    {"batch_size": 128, "learning_rate": 4e-5, "average_decay": 0.995},
    passes=0.4,
)
TINY = Sizes(8, (40, 20), (200, 200, 200), 3, {"batch_size": 64, "learning_rate": 5e-3}, written=1)

# ---- How it learns.

_COMMON = {"warmup_share": 0.06, "attention_dropout": 0.0, "keep": "last"}
TEACHER = Recipe(
    max_length=128, epochs=2, batch_size=192, learning_rate=5e-5, average_decay=0.998, seed=1
).model_copy(update=_COMMON)
STUDENT = Recipe(
    max_length=256, epochs=3, batch_size=256, learning_rate=2e-4, average_decay=0.999, seed=21
).model_copy(update=_COMMON)
STEADY = Recipe(
    max_length=256, epochs=1, batch_size=256, learning_rate=8e-5, average_decay=0.998, seed=11
).model_copy(update={**_COMMON, "consistency": 0.5})
NOISE = {"teacher": 0.1, "student": 0.15, "steady": 0.1}  # share of the texts that are changed
SOFT = 0.7  # weight of the teacher beside labels
MEAN = {"student": 1.0, "steady": 3.0}  # weights of the stages in the result
_LABEL_OF = {False: "negative", None: "neutral", True: "positive"}
MAX_LENGTH = 512  # the most tokens of a text that is served


@dataclass(frozen=True, slots=True)
class Work:
    """What all stages share."""

    folder: Path
    data: Data
    sizes: Sizes
    accelerator: Accelerator
    stop: Callable[[], int | None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all stages that are not done."""
    parser = argparse.ArgumentParser(description="make a checkpoint as checkpoints/default is")
    parser.add_argument("--output", type=Path, required=True, help="the checkpoint to write")
    parser.add_argument("--data", type=Path, help="the folder of the sources")
    parser.add_argument("--mpnet", type=Path, help="the pretrained MPNet, for the teacher")
    parser.add_argument("--minilm", type=Path, help="the pretrained MiniLM, for the student")
    parser.add_argument("--start", type=Path, help="the checkpoint to go on from, for the student")
    parser.add_argument("--tiny", action="store_true", help="a minute on made-up sentences")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    options = parser.parse_args(arguments)
    folder = options.output.resolve().with_name(f"{options.output.name}.work")
    folder.mkdir(parents=True, exist_ok=True)
    if options.tiny:
        options.data, options.mpnet, options.minilm = make_tiny(folder / "tiny")
    elif None in (options.data, options.start or options.mpnet, options.start or options.minilm):
        parser.error("give --data, and --mpnet and --minilm, or --start; or --tiny")
    sizes = TINY if options.tiny else FULL if options.start is None else SHORT
    try:
        with noted_signals() as stop:
            data = read_data(
                options.data, SOURCES, keep_out=KEEP_OUT, most_validation=sizes.validation
            )
            accelerator = choose_accelerator(options.device, threads=None, dtype="auto")
            if options.start is not None:  # stages from another start are others
                folder /= digest(options.start / WEIGHTS)[:12]
                folder.mkdir(exist_ok=True)
            work = Work(folder, data, sizes, accelerator, stop)
            start = begin_student(options.start or options.minilm, work)
            if options.start is None:
                teacher = fit_teacher(options.mpnet, work)
                weights = {"student": fit_taught("student", start, STUDENT, teacher, work)}
            else:
                if start.known != LABELS:
                    raise RecipeError(f"--start: {options.start} is not of the classes {LABELS}")
                tokenizer = load_tokenizer(options.start, max_length=TEACHER.max_length)
                network = copy.deepcopy(start.network)
                teacher = ask(network, tokenizer, options.start / WEIGHTS, work)
                weights = {"student": weights_of(start.network)}
            weights["steady"] = fit_taught("steady", start, STEADY, teacher, work)
    except Interruption as error:
        sys.stderr.write(f"interrupted: run the same command to go on ({error})\n")
        return 128 + error.signal
    except (TrainingError, ModelError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    start.network.load_state_dict(average_weights([(MEAN[name], weights[name]) for name in MEAN]))
    stages = {"teacher": TEACHER, "student": STUDENT} if options.start is None else {}
    calibrate(options.output, start, {**stages, "steady": STEADY}, work)
    return 0


# ---- Stage 1: the teacher.


def fit_teacher(folder: Path, work: Work) -> Teacher:
    """Trains MPNet on all labelled sets at once; its answers are kept beside its weights."""
    network = load_mpnet(
        folder,
        num_labels=len(LABELS),
        dropout=TEACHER.dropout,
        attention_dropout=TEACHER.attention_dropout,
        seed=TEACHER.seed,
    ).to(work.accelerator.device)
    tokenizer = load_tokenizer(folder, max_length=TEACHER.max_length)

    def parts() -> list[Rows]:
        made = by_rule(work.sizes.rules[0], seed=TEACHER.seed)
        return [*draw_labelled(0, work, seed=TEACHER.seed), made]

    fit_stage("teacher", network, tokenizer, TEACHER, parts, work)
    return ask(network, tokenizer, work.folder / "teacher.safetensors", work)


def ask(network: nn.Module, tokenizer: Tokenizer, weights: Path, work: Work) -> Teacher:
    """Returns a network as a teacher, whose answers are kept."""
    return Teacher(
        network,
        tokenizer,
        answers=work.folder / "answers.safetensors",
        weights=digest(weights),
        accelerator=work.accelerator,
        stop=work.stop,
    )


# ---- Stages 2 and 3: the student, and what should not matter changes no answer.


def begin_student(folder: Path, work: Work) -> InitialModel:
    """Loads MiniLM with a fresh classifier, or a checkpoint with its own."""
    recipe = STUDENT.model_copy(update={"max_length": MAX_LENGTH})
    start = init_from_pretrained(recipe, folder, LABELS)
    start.network.to(work.accelerator.device)
    return start


def fit_taught(
    name: str, start: InitialModel, recipe: Recipe, teacher: Teacher, work: Work
) -> dict[str, Tensor]:
    """Trains the student in one of its two stages, on rows that the teacher has read.

    A recipe with consistency holds answers still.
    """
    stage = 1 + tuple(MEAN).index(name)

    def parts() -> list[Rows]:
        seed, sizes = recipe.seed, work.sizes
        found = [
            soften(each, teacher.probabilities, teacher.fits, soft=SOFT)
            for each in draw_labelled(stage, work, seed=seed)
        ]
        for reviews in work.data.reviews.values():
            count = sizes.sentences[stage - 1]
            found.append(from_reviews(reviews, count, teacher.probabilities, seed=seed))
        found.append(by_rule(sizes.rules[stage], seed=seed))
        found.append(about_people(sizes.groups, teacher.probabilities, seed=seed))
        return found + [written()] * sizes.written

    # Emoji are read as words, here and in the checkpoint.
    tokenizer = read_emoji(start.tokenizer, max_length=recipe.max_length)
    return fit_stage(name, start.network, tokenizer, recipe, parts, work)


# ---- What the first three stages share.


def draw_labelled(stage: int, work: Work, *, seed: int) -> list[Rows]:
    """Draws the rows of every labelled source for a stage."""
    return [
        labelled(
            work.data.rows[source.file],
            work.sizes.passes * source.passes[stage],
            has_neutral=source.classes == len(LABELS),
            seed=seed,
        )
        for source in SOURCES
        if source.classes
    ]


def fit_stage(
    name: str,
    network: nn.Module,
    tokenizer: Tokenizer,
    recipe: Recipe,
    make_parts: Callable[[], list[Rows]],
    work: Work,
) -> dict[str, Tensor]:
    """Trains a network, or loads its weights if the stage is done; returns them, on the CPU."""
    path, state = work.folder / f"{name}.safetensors", work.folder / f"{name}-state"
    if path.is_file():
        say(f"{name} is done already: {path}")
        weights = safetensors.torch.load_file(path)
        network.load_state_dict(weights)
        return weights
    recipe = recipe.model_copy(update=work.sizes.recipe)
    kept_out, validation = work.data.measured, work.data.validation
    rows = join(make_parts(), keep_out=kept_out, noise=NOISE[name], seed=recipe.seed)
    texts = json.dumps([*rows.texts, rows.targets.tolist()]).encode()
    trainer = Trainer(
        network,
        tokenizer,
        recipe,
        training=encode_rows(
            tokenizer,
            rows.texts,
            rows.targets.argmax(axis=1).tolist(),
            rows.targets,
            perturbed=perturb_all(rows.texts, seed=recipe.seed) if recipe.consistency else None,
        ),
        validation=encode_rows(tokenizer, validation.texts, validation.label_ids),
        accelerator=work.accelerator,
        state_dir=state,
        fingerprint={**recipe.model_dump(mode="json"), "rows": sha256(texts).hexdigest()},
        label=name,
    )
    if has_state(state):
        try:
            trainer.resume()
        except ResumeError as error:
            say(f"{name} starts again: {error}")
            remove_folder(state)
    history = trainer.run(save_every=500, stop=work.stop, record=lambda _: None)
    last = history[-1]
    say(
        f"{name}: {len(rows.texts):,} texts, validation accuracy {last.validation_accuracy:.2%}, "
        f"{last.seconds:.0f} s"
    )
    weights = weights_of(network)
    write_whole(path, safetensors.torch.save(weights))
    remove_folder(state)
    return weights


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Copies the weights of a network to the CPU."""
    return {name: each.cpu().clone().contiguous() for name, each in network.state_dict().items()}


def average_weights(weighted: Sequence[tuple[float, Mapping[str, Tensor]]]) -> dict[str, Tensor]:
    """Averages several sets of weights (Wortsman et al. 2022, "Model soups")."""
    shares = torch.tensor([weight for weight, _ in weighted])
    return {
        name: torch.stack([tensors[name] for _, tensors in weighted], dim=-1)
        @ (shares / shares.sum())
        for name in weighted[0][1]
    }


# ---- Stage 4: temperatures, and how int8 does.


def calibrate(output: Path, start: InitialModel, recipes: Mapping[str, Recipe], work: Work) -> None:
    """Writes the checkpoint with its temperatures, its figures and its record of int8."""
    start.network.eval()
    start = replace(start, tokenizer=read_emoji(start.tokenizer, max_length=MAX_LENGTH))
    validation = work.data.validation
    sources = [
        {"file": each.file, "origin": each.origin, "licence": each.licence} for each in SOURCES
    ]
    stages = {
        name: recipe.model_copy(update=work.sizes.recipe).model_dump(mode="json")
        for name, recipe in recipes.items()
    }
    write_checkpoint(
        output,
        start,
        seed=STEADY.seed,
        language="en",
        record={"made_by": "recipes/default.py", "sources": sources, "stages": stages},
        training=validation,  # for its labels and sources
        validation=validation,
        evaluated=work.data.evaluated,
        device=work.accelerator.device,
        dtype=torch.float16,
    )
    record = record_int8(output, {"validation": validation, **work.data.evaluated})
    say(record_to_text(record).rstrip() if record else "int8 is not measured: there are no kernels")
    measure_kinds(output, work.folder / "kinds.json")
    say(f"checkpoint: {output}")


def measure_kinds(checkpoint: Path, output: Path) -> None:
    """Writes how many sentences of each kind in rules/held_out.toml get the right label."""
    examples = read_examples("held_out")
    answers = load(checkpoint).predict([example.text for example in examples])
    right, rows = Counter[str](), Counter[str]()
    for example, answer in zip(examples, answers, strict=True):
        rows[example.kind] += 1
        right[example.kind] += answer.label == _LABEL_OF[example.positive]
    counts: dict[str, Any] = {kind: (right[kind], count) for kind, count in rows.items()}
    counts = {"weights_sha256": digest(checkpoint / WEIGHTS), "kinds": counts}
    output.write_text(json.dumps(counts, indent=2), encoding="utf-8")
    say(f"all kinds: {right.total()} of {rows.total()}, by kind in {output}")


# ---- `--tiny`: made-up sentences, and networks with random weights.


def make_tiny(folder: Path) -> tuple[Path, Path, Path]:
    """Writes every source, an MPNet and a BERT; returns their folders."""
    from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

    words = ("dull", "plain", "lovely")
    texts = []
    for source in (*SOURCES, *(Source(name, classes=3) for name in KEEP_OUT)):
        lines = []
        for number in range(48):
            label = number % 3 if source.classes == 3 else number % 2 * 2
            text = f"Number {number} of {source.file} that we saw was {words[label]}."
            if not source.classes:
                text += f" It is a {words[label]} one for all of us!"
            texts.append(text)
            lines.append(f"{text}\t{LABELS[label]}" if source.classes else text)
        path = folder / "data" / source.file
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "text\tlabel" if source.classes else "text"
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write("\n".join([head, *lines]) + "\n")
    tokenizer = train_tokenizer(
        [*texts, *by_rule(400, seed=0).texts], vocab_size=800, max_length=MAX_LENGTH
    )
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": tokenizer.vocab_size,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": MAX_LENGTH + 2,
    }
    networks = {"mpnet": MPNetModel(MPNetConfig(**sizes)), "minilm": BertModel(BertConfig(**sizes))}
    for name, network in networks.items():
        network.save_pretrained(folder / name)
        (folder / name / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
        options = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
        (folder / name / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")
    return folder / "data", folder / "mpnet", folder / "minilm"


if __name__ == "__main__":
    sys.exit(main())
