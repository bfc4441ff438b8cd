"""Turns a text into a prediction and its attention weights.

    text -> Encoding -> Batch -> ClassifierOutput -> Prediction

The package knows neither HTTP nor training. A name is imported when it is first used, and torch
only with what needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.backends.eager import collate
    from model.checkpoint.manifest import Manifest
    from model.checkpoint.opening import Checkpoint, open_checkpoint
    from model.checkpoint.saving import save_checkpoint
    from model.explain.attention_steps import HeadInspector, HeadSteps
    from model.explain.attribution import Attribution, Attributor, HeadImportance, attribute
    from model.explain.gradients import Gradients
    from model.explain.interventions import Head, leave_out, switch_off
    from model.explain.leave_one_out import LeaveOut, LeaveOutAttribution, UnitChange
    from model.explain.units import TextUnits
    from model.loading import load_predictor
    from model.network import reference
    from model.network.architecture import Network
    from model.network.attention import AttentionOutput, MultiHeadAttention
    from model.network.config import ConvAttentionConfig, EncoderConfig, NetworkConfig
    from model.network.conv_attention import ConvAttentionClassifier
    from model.network.encoder import EncoderClassifier, build_encoder
    from model.network.masks import causal_mask, padding_mask
    from model.predictor import ModelInfo, Predictor
    from model.reading import leave_each_out
    from model.text_model import Predictions, TextModel, load
    from model.tokenization.tokenizer import Tokenizer
    from model.types import (
        AttentionOptions,
        Batch,
        Choice,
        Classifier,
        ClassifierOutput,
        Downsampling,
        Encoding,
        Explanation,
        Prediction,
        Token,
    )

_NAMES = {
    "backends.eager": "collate",
    "checkpoint.manifest": "Manifest",
    "checkpoint.opening": "Checkpoint open_checkpoint",
    "checkpoint.saving": "save_checkpoint",
    "explain.attention_steps": "HeadInspector HeadSteps",
    "explain.attribution": "Attribution Attributor HeadImportance attribute",
    "explain.gradients": "Gradients",
    "explain.interventions": "Head leave_out switch_off",
    "explain.leave_one_out": "LeaveOut LeaveOutAttribution UnitChange",
    "explain.units": "TextUnits",
    "loading": "load_predictor",
    "network.reference": "reference",
    "network.architecture": "Network",
    "network.attention": "AttentionOutput MultiHeadAttention",
    "network.config": "ConvAttentionConfig EncoderConfig NetworkConfig",
    "network.conv_attention": "ConvAttentionClassifier",
    "network.encoder": "EncoderClassifier build_encoder",
    "network.masks": "causal_mask padding_mask",
    "predictor": "ModelInfo Predictor",
    "reading": "leave_each_out",
    "text_model": "Predictions TextModel load",
    "tokenization.tokenizer": "Tokenizer",
    "types": "AttentionOptions Batch Choice Classifier ClassifierOutput Downsampling Encoding "
    "Explanation Prediction Token",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "AttentionOptions",
    "AttentionOutput",
    "Attribution",
    "Attributor",
    "Batch",
    "Checkpoint",
    "Choice",
    "Classifier",
    "ClassifierOutput",
    "ConvAttentionClassifier",
    "ConvAttentionConfig",
    "Downsampling",
    "EncoderClassifier",
    "EncoderConfig",
    "Encoding",
    "Explanation",
    "Gradients",
    "Head",
    "HeadImportance",
    "HeadInspector",
    "HeadSteps",
    "LeaveOut",
    "LeaveOutAttribution",
    "Manifest",
    "ModelInfo",
    "MultiHeadAttention",
    "Network",
    "NetworkConfig",
    "Prediction",
    "Predictions",
    "Predictor",
    "TextModel",
    "TextUnits",
    "Token",
    "Tokenizer",
    "UnitChange",
    "attribute",
    "build_encoder",
    "causal_mask",
    "collate",
    "leave_each_out",
    "leave_out",
    "load",
    "load_predictor",
    "open_checkpoint",
    "padding_mask",
    "reference",
    "save_checkpoint",
    "switch_off",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has the name
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES[name]}")
    found = module if module.__name__.endswith(f".{name}") else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
