"""Trains one network from its rows to its best weights: state, disk space and trackers included."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from model.atomic import remove_folder
from model.network.encoder import EncoderClassifier
from training.data.augment import detokenize_share, perturb_all
from training.data.dataset import Dataset
from training.device import Accelerator
from training.distributed import SINGLE_PROCESS, Ranks
from training.errors import DivergedRunError
from training.fit.export import Exported, language_of, write_checkpoint
from training.fit.head import average_tokens, fit_head, is_served
from training.fit.initial import init_from_pretrained, init_from_scratch
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows, encode_rows
from training.fit.run_fingerprint import run_fingerprint
from training.fit.trainer import Trainer
from training.measure.evaluate import record_int8
from training.measure.history import Measurement
from training.tracking.logs import RunLog, Target, opened_logs, parameters_of

STATE = "state"
# Rows by which int8 is compared with float32: seconds, and enough for `auto`.
_MOST_RECORDED = 500


@dataclass(frozen=True, slots=True)
class TrainingContext:
    """Where and how a run computes."""

    accelerator: Accelerator
    save_every: int
    stop: Callable[[], int | None]  # after each step: the number of a signal, or None
    ranks: Ranks = SINGLE_PROCESS  # only the first one writes files
    init_from: Path | None = None  # None: random weights
    name: str = ""  # of the output, which begins those of its runs in trackers
    targets: Sequence[Target] = ()


class Run:
    """One network, its rows and its trainer.

    `validation` chooses the epoch and the temperature; `folder` holds what belongs to this run.
    Without `keeps_state` it cannot be resumed; to write its state takes memory.
    """

    def __init__(
        self,
        recipe: Recipe,
        training: Dataset,
        validation: Dataset,
        context: TrainingContext,
        *,
        folder: Path,
        keeps_state: bool = True,
    ) -> None:
        seed = recipe.seed
        texts = detokenize_share(training.texts, share=recipe.detokenize_share, seed=seed)
        self.training = replace(training, texts=texts)
        self.validation = validation
        self.context = context
        self.folder = folder
        self.state_dir = folder / STATE
        self.start = (
            init_from_scratch(recipe, texts, training.labels)
            if context.init_from is None
            else init_from_pretrained(recipe, context.init_from, training.labels)
        )
        tokenizer, network = self.start.tokenizer, self.start.network
        network.to(context.accelerator.device)
        rows = encode_rows(
            tokenizer,
            texts,
            training.label_ids,
            perturbed=perturb_all(texts, seed=seed) if recipe.consistency else None,
        )
        self._lengths = [len(encoding.input_ids) for encoding in rows.encodings]
        self._serves = False
        if isinstance(network, EncoderClassifier) and context.init_from and not self.knows_classes:
            rows = self._fit_head(recipe, network, rows)
        recipe = self.recipe = self._chosen(recipe)
        self.trainer = Trainer(
            network,
            tokenizer,
            recipe,
            training=rows,
            validation=encode_rows(tokenizer, validation.texts, validation.label_ids),
            accelerator=context.accelerator,
            state_dir=self.state_dir if keeps_state else None,
            fingerprint=run_fingerprint(
                recipe,
                self.start.origin,
                context.accelerator,
                {"training": self.training, "validation": validation},
                context.init_from,
            ),
            may_keep_start=context.init_from is not None,
            ranks=context.ranks,
        )

    @property
    def knows_classes(self) -> bool:
        """Whether the first weights tell all classes of the rows apart."""
        return len(self.start.known) == len(self.training.labels)

    def _fit_head(
        self, recipe: Recipe, network: EncoderClassifier, rows: EncodedRows
    ) -> EncodedRows:
        """Fits the first head; returns the rows with what a teacher says of them."""
        where = self.start.tokenizer.pad_token_id, self.context.accelerator
        own, teacher = fit_head(network, rows, recipe, *where)
        self._serves = self.context.ranks.share_object(is_served(own, teacher))
        recipe = self._chosen(recipe)
        if recipe.layers is not None:
            average_tokens(network, recipe.layers, rows, *where)
            teacher, _ = fit_head(network, rows, recipe, *where)
            sizes = {"num_hidden_layers": len(network.layers)}
            self.start = replace(self.start, config=self.start.config.model_copy(update=sizes))
        answers, share = teacher.answers, recipe.teacher_share
        if answers is None or len(answers) < len(rows.label_ids) or not share:
            return rows
        classes = np.eye(len(self.training.labels))[list(rows.label_ids)]  # [N, C]
        targets = share * answers + (1.0 - share) * classes
        return replace(rows, targets=targets.astype(np.float32))

    def _chosen(self, recipe: Recipe) -> Recipe:
        is_small = self.context.accelerator.device.type == "cpu"
        kind = {"is_served": self._serves, "is_known": self.knows_classes}
        return recipe.for_rows(self._lengths, **kind, is_small=is_small)

    @contextmanager
    def trained(
        self, name: str, report: Callable[[Sequence[Measurement]], None] = lambda _: None
    ) -> Iterator[tuple[list[Measurement], RunLog]]:
        """Trains, and yields the whole history, and logs that stay open for the figures.

        `report` gets the history up to each epoch, again for those of a resumed run.
        """
        trainer, context = self.trainer, self.context
        with opened_logs(context.targets, name, folder=self.folder, first_step=trainer.step) as log:
            logged = 0

            def record(history: Sequence[Measurement]) -> None:
                nonlocal logged
                for count in range(logged + 1, len(history) + 1):
                    report(history[:count])
                    log.epoch(history[count - 1])
                logged = len(history)

            log.begin(parameters_of(self.recipe, self.start.origin, self.training, self.validation))
            trainer.observe(log.step)
            try:
                history = trainer.run(
                    save_every=context.save_every, stop=context.stop, record=record
                )
            except DivergedRunError:
                if context.ranks.is_first:
                    remove_folder(self.state_dir)  # a resumed run would diverge again
                raise
            yield history, log

    def write(
        self,
        output: Path,
        *,
        evaluated: Mapping[str, Dataset] = MappingProxyType({}),
        dtype: torch.dtype = torch.float32,
    ) -> Exported:
        """Writes the checkpoint of a run that has trained, and the record of int8."""
        exported = write_checkpoint(
            output,
            self.start,
            seed=self.recipe.seed,
            language=language_of(self.start, self.training),
            record=self.recipe.model_dump(mode="json"),
            training=self.training,
            validation=self.validation,
            evaluated=evaluated,
            device=self.context.accelerator.device,
            dtype=dtype,
        )
        sets = {"validation": self.validation, "training": self.training}
        left = _MOST_RECORDED
        for name, rows in sets.items():
            sets[name] = rows.take(range(min(len(rows), left)))
            left -= len(sets[name])
        return replace(exported, int8=record_int8(output, {x: sets[x] for x in sets if sets[x]}))
