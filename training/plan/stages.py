"""Runs the stages of a plan one after the other, and averages the weights that they leave."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from model.checkpoint.opening import open_checkpoint
from model.cli.progress import say
from model.tokenization.reader import load_tokenizer
from model.tokenization.tokenizer import Tokenizer
from training.errors import InterruptedRunError, RecipeError
from training.fit.rows import LEFT_OUT
from training.plan.fingerprint import Fingerprints, of_rows
from training.plan.plan import Plan, Stage
from training.plan.pool import Pool, SoftDataset, Targets, draw_rows
from training.plan.stage_runner import StageRunner
from training.plan.teacher import Teacher, TeacherLabels, load_teacher
from training.run import TrainingContext
from training.synth.emoji import read_emoji

_TEACHER = "teacher"


class PlanRun:
    """One run of a plan; each epoch is measured on the validation texts."""

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        validation: tuple[Sequence[str], Sequence[int]],
        *,
        student: Path,
        teacher: Path | None,
        expert: Path | None,
        context: TrainingContext,
    ) -> None:
        self._plan = plan
        self._pool = pool
        self._student = student
        self._teacher = teacher
        self._expert = expert
        self._context = context
        self._runner = StageRunner(context, validation)
        self._fingerprints = Fingerprints(
            plan,
            pool,
            student=student,
            teacher=teacher,
            expert=expert,
            shared={
                "validation": of_rows(*validation),
                "device": context.accelerator.device.type,
                "bfloat16": context.accelerator.bfloat16,
            },
        )
        self._asked_teacher: Teacher | None = None

    def run(self, network: nn.Module) -> None:
        """Runs every unfinished stage, and loads the mean of all weights into the network."""
        weighted: list[tuple[float, dict[str, Tensor]]] = []
        if self._plan.pretrained.weight:
            begun = {name: tensor.clone() for name, tensor in network.state_dict().items()}
            weighted.append((self._plan.pretrained.weight, begun))
        for number, stage in enumerate(self._plan.stages):
            name = f"{number + 1}-{stage.name}"
            fingerprint = self._fingerprints.of_stage(number)
            weights = self._runner.load(name, fingerprint)
            if weights is None:
                say(f"stage {name}")
                if stage.begin == "mean":
                    network.load_state_dict(average_weights(weighted))
                tokenizer = plan_tokenizer(
                    self._plan, self._student, max_length=stage.recipe.max_length
                )
                rows = self._rows(
                    stage, self._teacher_of(stage, name, network, tokenizer, fingerprint)
                )
                weights = self._runner.fit(
                    name, network, tokenizer, stage.recipe, rows, fingerprint
                )
            else:
                say(f"stage {name} is done already")
                network.load_state_dict(weights)
            weighted.append((stage.weight, weights))
            self._stop_if_asked(number + 1)
        network.load_state_dict(average_weights(weighted))
        network.eval()

    def _stop_if_asked(self, done: int) -> None:
        signal = self._context.stop()
        if signal is not None:
            raise InterruptedRunError(signal, done, len(self._plan.stages), of="stage")

    def _rows(self, stage: Stage, teacher: Teacher | None) -> SoftDataset:
        try:
            return draw_rows(
                self._pool,
                stage.rows,
                undo_penn_share=stage.recipe.undo_penn_share,
                seed=stage.recipe.seed,
                teach=teacher.probabilities if teacher else None,
                fits_teacher=teacher.fits if teacher else None,
                ask_expert=self._ask_expert() if stage.rows.expert else None,
            )
        except RecipeError as error:
            raise RecipeError(f"stage {stage.name}: {error}") from error

    def _teacher_of(
        self, stage: Stage, name: str, network: nn.Module, tokenizer: Tokenizer, fingerprint: str
    ) -> Teacher | None:
        """Returns who teaches a stage. The network teaches itself before it is trained further."""
        if not stage.rows.is_taught:
            return None
        if stage.rows.taught_by == "teacher":
            return self._ask_teacher()
        return self._taught_by(network, tokenizer, f"{name}-labels", fingerprint)

    def _ask_expert(self) -> Callable[[Sequence[str]], Targets]:
        """Returns what gives the expert's probabilities as targets of the plan's classes."""
        expert = self._plan.expert
        if expert is None or self._expert is None:
            raise RecipeError("the plan has no [expert], or no folder was given for it")
        checkpoint = open_checkpoint(self._expert)
        teacher = self._taught_by(
            checkpoint.load_network().to(self._context.accelerator.device),
            checkpoint.tokenizer,
            "expert-labels",
            self._fingerprints.of_expert(),
            num_labels=len(checkpoint.config.labels),
            temperature=checkpoint.manifest.temperature,
        )
        indices = [self._plan.labels.index(label) for label in checkpoint.config.labels]

        def ask(texts: Sequence[str]) -> Targets:
            targets = np.full((len(texts), len(self._plan.labels)), LEFT_OUT, np.float32)
            targets[:, indices] = teacher.probabilities(texts)
            return targets

        return ask

    def _taught_by(
        self,
        network: nn.Module,
        tokenizer: Tokenizer,
        labels: str,
        fingerprint: str,
        *,
        num_labels: int | None = None,
        temperature: float = 1.0,
    ) -> Teacher:
        return Teacher(
            network,
            tokenizer,
            TeacherLabels(
                self._context.run_dir / f"{labels}.safetensors", fingerprint, self._context.ranks
            ),
            num_labels=num_labels or len(self._plan.labels),
            temperature=temperature,
            accelerator=self._context.accelerator,
            stop=self._context.stop,
            ranks=self._context.ranks,
        )

    def _ask_teacher(self) -> Teacher:
        """Returns the trained teacher; trains it at the first call."""
        if self._asked_teacher is None:
            teacher = self._plan.teacher
            if teacher is None or self._teacher is None:
                raise RecipeError("the plan has no [teacher], or no folder was given for it")
            network, tokenizer = load_teacher(
                self._teacher, teacher, num_labels=len(self._plan.labels)
            )
            fingerprint = self._fingerprints.of_teacher(teacher)
            weights = self._runner.load(_TEACHER, fingerprint)
            if weights is None:
                say("the teacher")
                rows = draw_rows(
                    self._pool,
                    teacher.rows,
                    undo_penn_share=teacher.recipe.undo_penn_share,
                    seed=teacher.recipe.seed,
                    teach=None,
                )
                network.to(self._context.accelerator.device)
                self._runner.fit(_TEACHER, network, tokenizer, teacher.recipe, rows, fingerprint)
            else:
                network.load_state_dict(weights)
            network.to(self._context.accelerator.device)
            self._asked_teacher = self._taught_by(network, tokenizer, "teacher-labels", fingerprint)
        return self._asked_teacher


def plan_tokenizer(plan: Plan, folder: Path, *, max_length: int) -> Tokenizer:
    """Loads the tokenizer of the pretrained encoder, with emoji if the plan says so."""
    tokenizer = load_tokenizer(folder, max_length=max_length)
    return read_emoji(tokenizer, max_length=max_length) if plan.emoji else tokenizer


def average_weights(weighted: Sequence[tuple[float, Mapping[str, Tensor]]]) -> dict[str, Tensor]:
    """Averages several sets of weights (Wortsman et al. 2022, "Model soups")."""
    total = sum(weight for weight, _ in weighted)
    names = weighted[0][1].keys()
    return {
        name: torch.stack(
            [tensors[name] * (weight / total) for weight, tensors in weighted if weight]
        ).sum(dim=0)
        for name in names
    }
