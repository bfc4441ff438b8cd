"""Fits the first classifier of a pretrained encoder: logistic regression on its frozen features.

A second one, on the mean embedding of the words, shows whether these features are of use.

Legend: N rows, D hidden size, C classes.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from model.network.encoder import EncoderClassifier
from model.network.layers import EncoderLayer
from model.types import Encoding
from training.device import Accelerator
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows
from training.measure.inference import predict_logits

# Of more rows, this many random ones: a minute of long texts at most.
MOST_ROWS = 5_000
# Inverse strengths of the penalty on standardised features.
_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_FOLDS, _WITHOUT_FOLDS = 3, 1e-2
# Between 0.7 and 1.03 in tasks where more must be learnt, above 1.35 where an encoder was trained
# for such classes (docs/decisions/0031-own-classes.md).
_CLEARLY = 1.2
# Of the mean of all tokens beside the first one, which the residual connection adds.
_WEIGHT_OF_MEAN, _LEAST_DEVIATION = 4.0, 1e-3
_ALL_POSITIVE = 3.0  # deviations, so that a ReLU leaves nearly all as they are


class Regression(NamedTuple):
    """Weights [C, D] and bias [C]; log-loss and answers [N, C] in cross-validation, if any."""

    weight: NDArray[np.floating]
    bias: NDArray[np.floating]
    loss: float = math.nan
    answers: NDArray[np.floating] | None = None


def fit_head(
    network: EncoderClassifier,
    rows: EncodedRows,
    recipe: Recipe,
    pad_token_id: int,
    accelerator: Accelerator,
) -> tuple[Regression, Regression]:
    """Sets the classifier to the multinomial logistic regression on what it reads, standardised.

    The strength of the penalty has the least log-loss in cross-validation, if all classes have two
    rows. Returns the regression, and that on the mean embedding of the words.
    """
    order = np.random.default_rng(recipe.seed).permutation(len(rows.label_ids))
    _, firsts = np.unique(np.array(rows.label_ids)[order], return_index=True)
    chosen = np.sort(order[np.union1d(np.arange(min(MOST_ROWS, len(order))), firsts)])
    truth = np.array(rows.label_ids)[chosen]  # [N]
    encodings = [rows.encodings[index] for index in chosen]
    table = network.embeddings.tokens.weight.detach().cpu().numpy()
    words = np.stack([table[encoding.input_ids].mean(axis=0) for encoding in encodings])  # [N, D]
    features = _features(network, encodings, pad_token_id, accelerator)
    own, other = (
        logistic_regression(
            each, truth, recipe.seed, is_balanced=recipe.class_weights == "balanced"
        )
        for each in (features, words)
    )
    with torch.no_grad():
        network.classifier.weight.copy_(torch.from_numpy(own.weight))
        network.classifier.bias.copy_(torch.from_numpy(own.bias))
    return own, other


def is_served(own: Regression, words: Regression) -> bool:
    """Whether an encoder was trained for such classes, by the regressions of `fit_head`."""
    return bool(words.loss > _CLEARLY * own.loss)


@torch.no_grad()
def average_tokens(
    network: EncoderClassifier,
    layers: int,
    rows: EncodedRows,
    pad_token_id: int,
    accelerator: Accelerator,
) -> None:
    """Cuts an encoder down to its lowest layers, of which the last averages all tokens.

    Its attention is the same to each token; its output is their mean, standardised over the rows.
    """
    network.layers = network.layers[:layers]
    last = cast("EncoderLayer", network.layers[-1])
    attention, pooler = last.attention, network.pooler
    for module in (attention.query, attention.value, attention.output, last.output, pooler):
        nn.init.zeros_(module.bias)
        nn.init.zeros_(module.weight)
    for module in (attention.value, attention.output, pooler):
        nn.init.eye_(module.weight)
    if network.pooling == "relu":
        nn.init.constant_(pooler.bias, _ALL_POSITIVE)
    last.attention_norm.reset_parameters()
    last.output_norm.reset_parameters()
    means: list[Tensor] = []
    hook = attention.output.register_forward_hook(
        lambda _module, _inputs, output: means.append(output[:, 0].float())
    )
    _features(network, rows.encodings, pad_token_id, accelerator)
    hook.remove()
    deviation, mean = torch.std_mean(torch.cat(means), dim=0)
    scale = _WEIGHT_OF_MEAN / deviation.clamp(min=_LEAST_DEVIATION)  # [D]
    attention.output.weight.copy_(torch.diag(scale))
    attention.output.bias.copy_(-scale * mean)


def _features(
    network: EncoderClassifier,
    encodings: Sequence[Encoding],
    pad_token_id: int,
    accelerator: Accelerator,
) -> NDArray[np.float32]:
    """Returns what the classifier reads of each text [N, D]."""
    classifier, network.classifier = network.classifier, nn.Identity()  # type: ignore[assignment]
    where: Any = {"pad_token_id": pad_token_id, "device": accelerator.device, "label": "features"}
    with accelerator.autocast():
        features = predict_logits(network.eval(), encodings, **where)
    network.classifier = classifier
    return features


def logistic_regression(
    features: NDArray[np.floating], truth: NDArray[np.integer], seed: int, *, is_balanced: bool
) -> Regression:
    """Fits the regression to features [N, D]."""
    weights = "balanced" if is_balanced else None
    # On 2,000 rows 2 to 40 times faster than L-BFGS, which stops before the minimum.
    regression = LogisticRegression(C=_WITHOUT_FOLDS, solver="newton-cg", class_weight=weights)
    model = make_pipeline(StandardScaler(), regression)
    features, loss, answers = features.astype(np.float64), math.nan, None
    folds = min(_FOLDS, np.bincount(truth).min())
    if folds > 1:
        split = StratifiedKFold(folds, shuffle=True, random_state=seed)
        strengths = {"logisticregression__C": _STRENGTHS}
        search = GridSearchCV(model, strengths, scoring="neg_log_loss", cv=split)
        model.set_params(**search.fit(features, truth).best_params_)
        loss = -search.best_score_
        answers = cross_val_predict(model, features, truth, cv=split, method="predict_proba")
    scaler, fitted = (step for _, step in model.fit(features, truth).steps)
    weight, bias = fitted.coef_, fitted.intercept_
    if len(weight) == 1:  # of two classes it fits the difference
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    weight = weight / scaler.scale_
    return Regression(weight, bias - weight @ scaler.mean_, loss, answers)
