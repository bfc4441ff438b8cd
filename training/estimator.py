"""Trains and predicts by the conventions of scikit-learn, as `headlight-train fit` does."""

import os
import shutil
import sys
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from model.atomic import replacing_folder
from model.backends.device import choose_device
from model.checkpoint.location import local_folder
from model.checkpoint.saving import check_place
from model.cli.progress import say, silent
from model.text_model import TextModel, load
from model.validation import checked_text, folder_path, is_missing, kind_of, list_items
from training import outcome
from training.data.dataset import IN_MEMORY, Dataset, dataset_of
from training.data.labels import class_number, parse_label
from training.data.validation_split import split_validation
from training.device import choose_accelerator
from training.errors import FitWarning
from training.fit.recipe import Recipe, load_recipe
from training.measure.evaluate import answer_columns, wrong_first
from training.measure.evaluate import evaluate as measure
from training.measure.history import Measurement
from training.measure.report import to_text
from training.measure.summary import epoch_line
from training.run import Run, TrainingContext

# Those of a recipe that are named alike here.
_FIELDS = (
    *("epochs", "batch_size", "accumulate", "learning_rate", "weight_decay", "warmup_share"),
    *("max_grad_norm", "consistency", "label_smoothing", "dropout", "max_length"),
    *("validation_share", "patience"),
)
_FIGURES = ("accuracy", "accuracy_interval", "macro_f1", "log_loss", "ece")
_MOST_SEED = 2**31 - 1
_SAVE_EVERY = 500


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifies texts, by a network that is trained further on them.

    The numbers of a recipe are those of `headlight-train fit`; None means that of the preset. A
    pickle of a fitted one holds the files of its checkpoint.

    Args:
        init_from: the folder of the first weights, or `hf:NAME@REVISION`; None: random weights.
        preset: a name or a TOML file; None: `finetune`, or `small` for random weights.
        class_weight: `balanced` lets every class count alike.
        random_state: of everything random.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        threads: None means the CPU quota, or the cores.
        dtype: of matrix products in training: `auto`, `float32` or `bfloat16`.
        verbose: True prints what `fit` prints; False nothing; None shows progress only, where
            standard error is a terminal or a notebook.

    Attributes:
        classes_: the classes of `y`, sorted.
        history_: the measurement of each epoch.
        report_: rows, figures and baselines to beat, in the lines of `headlight-train fit`.
        model_: the trained `model.TextModel`, in float32.
    """

    def __init__(
        self,
        init_from: str | Path | None = "checkpoints/default",
        *,
        preset: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        accumulate: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        warmup_share: float | None = None,
        max_grad_norm: float | None = None,
        consistency: float | None = None,
        label_smoothing: float | None = None,
        dropout: float | None = None,
        max_length: int | None = None,
        validation_share: float | None = None,
        patience: int | None = None,
        class_weight: str | None = None,
        random_state: int | np.integer[Any] | np.random.RandomState | None = 0,
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "auto",
        verbose: bool | None = None,
    ) -> None:
        self.init_from = init_from
        self.preset = preset
        self.epochs = epochs
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.warmup_share = warmup_share
        self.max_grad_norm = max_grad_norm
        self.consistency = consistency
        self.label_smoothing = label_smoothing
        self.dropout = dropout
        self.max_length = max_length
        self.validation_share = validation_share
        self.patience = patience
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.dtype = dtype
        self.verbose = verbose

    def fit(self, X: Iterable[str], y: ArrayLike) -> Self:  # noqa: N803 - as scikit-learn
        """Trains on texts and their classes: words, whole numbers or truth values.

        A share of the rows chooses the epoch and the temperature.

        Raises:
            ValueError: rows or numbers cannot be used; the message says which and why.
            TypeError: `X` is one string or a table, or something in it is not a string.
            CheckpointError, HubError: the first weights cannot be loaded.
            DivergedRunError: the loss is no longer a finite number.

        Warns:
            FitWarning: rows or figures are doubtful, such as few rows of a class.
        """
        classes, dataset, order = _rows_of(list_items(X, by="fit"), y)
        is_shown = self.verbose
        if is_shown is None:
            is_shown = getattr(sys.stderr, "isatty", bool)() or "ipykernel" in sys.modules
        with self._new_folder() as folder, tempfile.TemporaryDirectory() as work:
            with nullcontext() if is_shown else silent(), _torch_as_it_was():
                run = self._run(dataset, Path(work))
                begun = list(outcome.beginning(run, {}))
                self._note(begun)

                def report(past: Sequence[Measurement]) -> None:
                    self._note([epoch_line(past, epochs=run.recipe.epochs)])

                with run.trained("estimator", report) as (history, _):
                    exported = run.write(folder)
                ended = list(outcome.ending(run, history, exported))
            self.model_ = load(folder, device=self.device, dtype="float32")
        self.classes_, self._order, self.history_ = classes, order, history
        self.report_ = "\n".join([*begun, *ended])
        self._note(ended)
        return self

    def predict(self, X: Iterable[str]) -> NDArray[Any]:  # noqa: N803
        """Returns the most probable class of each text."""
        numbers = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[numbers]
        return chosen

    def predict_proba(self, X: Iterable[str]) -> NDArray[np.float64]:  # noqa: N803
        """Returns calibrated probabilities, float64 [texts, classes], as `classes_` orders them."""
        check_is_fitted(self)
        found = [list(each.probabilities.values()) for each in self.model_.predict(X)]
        return np.array(found, np.float64).reshape(-1, len(self.classes_))[:, self._order]

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes a checkpoint that the service serves, and `model.load` reads.

        Raises:
            FileExistsError: there is a checkpoint already, and `overwrite` is false.
            CheckpointError: the folder holds something other than a checkpoint.
        """
        check_is_fitted(self)
        path = folder_path(folder, by="save")
        if path.is_dir() and any(path.iterdir()) and not overwrite:
            raise FileExistsError(
                f"{path} is there already: choose another folder, or give overwrite=True"
            )
        check_place(path)
        with replacing_folder(path.resolve()) as fresh:
            shutil.copytree(self._folder, fresh, dirs_exist_ok=True)

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = tags.input_tags.string = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if state.pop("model_", None) is not None:
            del state["_remove"]
            folder = state.pop("_folder")
            state["_files"] = {path.name: path.read_bytes() for path in folder.iterdir()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is not None:
            with self._new_folder() as folder:
                for name, content in files.items():
                    (folder / name).write_bytes(content)
                self.model_ = load(folder, device=self.device, dtype="float32")

    @contextmanager
    def _new_folder(self) -> Iterator[Path]:
        """Makes a folder, which takes the place of the earlier one and goes with this object."""
        folder = Path(tempfile.mkdtemp(prefix="headlight-"))
        remove = weakref.finalize(self, _remove, folder, os.getpid())
        try:
            yield folder
        except BaseException:
            remove()
            raise
        if (earlier := getattr(self, "_remove", None)) is not None:
            earlier()  # else each refit would leave a folder of 90 MB
        self._folder, self._remove = folder, remove

    def _run(self, dataset: Dataset, work: Path) -> Run:
        recipe = self._recipe()
        which, share = recipe.validation_split, recipe.validation_share
        training, validation = split_validation(dataset, which=which, share=share, seed=recipe.seed)
        device, init_from = str(choose_device(self.device)), self.init_from
        context = TrainingContext(
            accelerator=choose_accelerator(device, threads=self.threads, dtype=self.dtype),
            save_every=_SAVE_EVERY,
            stop=lambda: None,
            init_from=None if init_from is None else local_folder(folder_path(init_from, by="fit")),
        )
        return Run(recipe, training, validation, context, folder=work, keeps_state=False)

    def _note(self, lines: Iterable[str]) -> None:
        """Prints lines if that is asked for, and warns the caller of `fit`."""
        for line in lines:
            if line.startswith(outcome.WARNING):
                text = line.removeprefix(outcome.WARNING)
                warnings.warn(text, FitWarning, stacklevel=3)
            elif self.verbose:
                say(line)

    def _recipe(self) -> Recipe:
        # A grid may hold numbers of numpy.
        changes = {
            name: value.item() if isinstance(value, np.generic) else value
            for name in _FIELDS
            if (value := getattr(self, name)) is not None
        }
        state = self.random_state
        if not isinstance(state, int | np.integer):
            state = check_random_state(state).randint(_MOST_SEED)
        changes["seed"] = int(state)
        if self.class_weight is not None:
            changes["class_weights"] = self.class_weight
        preset = self.preset or ("small" if self.init_from is None else "finetune")
        return load_recipe(preset, changes, are_typed=False)


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """Figures of a model on rows, with an interval at 95 %.

    Args:
        classes: `precision`, `recall`, `f1` and `rows` of each class; None where there is none.
        errors: the wrong rows, most certain first: `index`, then as of the option `--errors`.
        report: all figures, as `headlight-train evaluate --json` has them of a file.
    """

    accuracy: float
    accuracy_interval: Sequence[float]
    macro_f1: float
    log_loss: float
    ece: float
    classes: Mapping[str, Mapping[str, float | None]]
    errors: Sequence[Mapping[str, Any]]
    report: Mapping[str, Any]

    def __repr__(self) -> str:
        return to_text(dict(self.report))


def evaluate(model: TextModel | TextClassifier, X: Iterable[str], y: ArrayLike) -> Evaluation:  # noqa: N803
    """Measures a model on texts and their classes, as `headlight-train evaluate` measures files.

    Raises:
        DataError: a row cannot be used, or the model has no such class.
        TypeError: `model` is no model, or is not fitted.
    """
    loaded = getattr(model, "model_", model)
    if not isinstance(loaded, TextModel):
        raise TypeError(f"evaluate takes a TextModel or a fitted classifier, got {kind_of(model)}")
    texts = list_items(X, by="evaluate")
    check_consistent_length(texts, y)
    rows = dataset_of(texts, np.asarray(y).tolist(), names=loaded.labels)
    with silent():
        measured = measure(loaded.predictor, rows, path=IN_MEMORY)
    report = measured.report
    order, columns = wrong_first(answer_columns([(IN_MEMORY, rows)], [measured]))
    errors = [
        dict(zip(("index", *columns), row, strict=True))
        for row in zip(order, *(column.tolist() for column in columns.values()), strict=True)
    ]
    first = report["by_threshold"][0]  # answers all
    classes = {
        label: {
            "precision": first["precision"][label],
            "recall": first["recall"][label],
            "f1": report["f1"][label],
            "rows": sum(counts),
        }
        for label, counts in zip(rows.labels, report["confusion"], strict=True)
    }
    figures = {name: report[name] for name in _FIGURES}
    return Evaluation(**figures, classes=classes, errors=errors, report=report)


def _remove(folder: Path, owner: int) -> None:
    """Removes a folder; a fork of the process that made it leaves it there."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _rows_of(items: Sequence[object], y: ArrayLike) -> tuple[NDArray[Any], Dataset, list[int]]:
    """Returns the classes, the rows, and the number of each class among the names of the rows."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    texts = [checked_text(each, prefix=f"texts[{at}]: ") for at, each in enumerate(items)]
    check_consistent_length(texts, y)
    for index, label in enumerate(y):  # type: ignore[arg-type]
        if is_missing(label):
            raise ValueError(f"y[{index}] is missing: leave the row out, or give it a class")
    column = column_or_1d(y, warn=True)
    check_classification_targets(column)
    classes: NDArray[Any] = LabelEncoder().fit(column).classes_
    if len(classes) < 2:
        raise ValueError(f"y has {len(classes)} class: a classifier needs rows of two or more")
    dataset = dataset_of(texts, column.tolist())
    order = [class_number(parse_label(each), dataset.labels) for each in classes.tolist()]
    if len(set(order)) < len(classes):
        raise ValueError("two classes of y differ only by spaces: write them alike")
    return classes, dataset, order


@contextmanager
def _torch_as_it_was() -> Iterator[None]:
    """Gives threads, determinism and random numbers of torch back to the caller as they were."""
    threads, is_strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(is_strict)
