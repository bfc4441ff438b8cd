"""Reads, checks and writes checkpoint folders."""

from model.checkpoint.baseline import LENGTH_BOUNDS, SCORE_BOUNDS, Baseline, count_baseline
from model.checkpoint.hub_folder import fetch, local_folder, origin_of
from model.checkpoint.manifest import DataSource, Manifest, Metric, Precision, PrecisionSet, seal
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.saving import (
    check_place,
    check_recordable,
    save_baseline,
    save_checkpoint,
    save_precision,
)
from model.checkpoint.thresholds import (
    ThresholdReport,
    Thresholds,
    count_thresholds,
    threshold_reports,
)
from model.checkpoint.weights import load_encoder_weights

__all__ = [
    "LENGTH_BOUNDS",
    "SCORE_BOUNDS",
    "Baseline",
    "Checkpoint",
    "DataSource",
    "Manifest",
    "Metric",
    "Precision",
    "PrecisionSet",
    "ThresholdReport",
    "Thresholds",
    "check_place",
    "check_recordable",
    "count_baseline",
    "count_thresholds",
    "fetch",
    "load_encoder_weights",
    "local_folder",
    "open_checkpoint",
    "origin_of",
    "save_baseline",
    "save_checkpoint",
    "save_precision",
    "seal",
    "threshold_reports",
]
