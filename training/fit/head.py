"""Fits the first classifier of a pretrained encoder: logistic regression on its frozen features.

Legend: N rows, D hidden size, C classes.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from model.network.encoder import EncoderClassifier
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


def fit_head(
    network: EncoderClassifier,
    rows: EncodedRows,
    recipe: Recipe,
    pad_token_id: int,
    accelerator: Accelerator,
) -> bool:
    """Sets the classifier to the multinomial logistic regression on what it reads.

    Features are standardised; weights and bias take mean and scale in. The strength of the penalty
    has the least log-loss in cross-validation, if every class has two rows or more.

    Returns:
        Whether the encoder serves these classes already: its features are clearly better in
        cross-validation than the mean embedding of the words that it reads.
    """
    order = np.random.default_rng(recipe.seed).permutation(len(rows.label_ids))
    _, firsts = np.unique(np.array(rows.label_ids)[order], return_index=True)
    chosen = order[np.union1d(np.arange(min(MOST_ROWS, len(order))), firsts)]
    truth = np.array(rows.label_ids)[chosen]  # [N]
    encodings = [rows.encodings[index] for index in chosen]
    classifier, network.classifier = network.classifier, nn.Identity()  # type: ignore[assignment]
    where: Any = {"pad_token_id": pad_token_id, "device": accelerator.device, "label": "features"}
    with accelerator.autocast():
        features = predict_logits(network.eval(), encodings, **where)  # [N, D]
    network.classifier = classifier
    is_balanced = recipe.class_weights == "balanced"
    weight, bias, loss = logistic_regression(features, truth, recipe.seed, is_balanced=is_balanced)
    table = network.embeddings.tokens.weight.detach().cpu().numpy()
    words = np.stack([table[encoding.input_ids].mean(axis=0) for encoding in encodings])  # [N, D]
    *_, loss_of_words = logistic_regression(words, truth, recipe.seed, is_balanced=is_balanced)
    with torch.no_grad():
        classifier.weight.copy_(torch.from_numpy(weight))
        classifier.bias.copy_(torch.from_numpy(bias))
    return bool(loss_of_words > _CLEARLY * loss)


def logistic_regression(
    features: NDArray[np.floating], truth: NDArray[np.integer], seed: int, *, is_balanced: bool
) -> tuple[NDArray[np.floating], NDArray[np.floating], float]:
    """Fits weights [C, D] and bias [C]; returns them and the log-loss in cross-validation."""
    regression = LogisticRegression(
        C=_WITHOUT_FOLDS, max_iter=1000, class_weight="balanced" if is_balanced else None
    )
    model = make_pipeline(StandardScaler(), regression)
    features, loss = features.astype(np.float64), math.nan
    folds = min(_FOLDS, np.bincount(truth).min())
    if folds > 1:
        search = GridSearchCV(
            model,
            {"logisticregression__C": _STRENGTHS},
            scoring="neg_log_loss",
            cv=StratifiedKFold(folds, shuffle=True, random_state=seed),
        )
        model.set_params(**search.fit(features, truth).best_params_)
        loss = -search.best_score_
    scaler, fitted = (step for _, step in model.fit(features, truth).steps)
    weight, bias = fitted.coef_, fitted.intercept_
    if len(weight) == 1:  # of two classes it fits the difference
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    weight = weight / scaler.scale_
    return weight, bias - weight @ scaler.mean_, loss
