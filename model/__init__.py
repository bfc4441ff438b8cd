"""Turns a text into a prediction and its attention weights.

    text -> Encoding -> Batch -> ClassifierOutput -> Prediction

The package knows neither HTTP nor training. A name is imported when it is first used, and torch
only with what needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.backends.eager import collate as collate
    from model.checkpoint.manifest import Manifest as Manifest
    from model.checkpoint.opening import Checkpoint as Checkpoint
    from model.checkpoint.opening import open_checkpoint as open_checkpoint
    from model.checkpoint.saving import save_checkpoint as save_checkpoint
    from model.explain.attention_steps import HeadInspector as HeadInspector
    from model.explain.attention_steps import HeadSteps as HeadSteps
    from model.explain.attribution import Attribution as Attribution
    from model.explain.attribution import Attributor as Attributor
    from model.explain.attribution import HeadImportance as HeadImportance
    from model.explain.attribution import attribute as attribute
    from model.explain.gradients import Gradients as Gradients
    from model.explain.interventions import Head as Head
    from model.explain.interventions import leave_out as leave_out
    from model.explain.interventions import switch_off as switch_off
    from model.explain.leave_one_out import LeaveOut as LeaveOut
    from model.explain.leave_one_out import LeaveOutAttribution as LeaveOutAttribution
    from model.explain.leave_one_out import UnitChange as UnitChange
    from model.explain.units import TextUnits as TextUnits
    from model.explain.views import Explanation as Explanation
    from model.loading import load_predictor as load_predictor
    from model.network import reference as reference
    from model.network.architecture import Network as Network
    from model.network.attention import AttentionOutput as AttentionOutput
    from model.network.attention import MultiHeadAttention as MultiHeadAttention
    from model.network.config import ConvAttentionConfig as ConvAttentionConfig
    from model.network.config import EncoderConfig as EncoderConfig
    from model.network.config import NetworkConfig as NetworkConfig
    from model.network.conv_attention import ConvAttentionClassifier as ConvAttentionClassifier
    from model.network.encoder import EncoderClassifier as EncoderClassifier
    from model.network.encoder import build_encoder as build_encoder
    from model.network.masks import causal_mask as causal_mask
    from model.network.masks import padding_mask as padding_mask
    from model.predictor import ModelInfo as ModelInfo
    from model.predictor import Predictor as Predictor
    from model.reading import leave_each_out as leave_each_out
    from model.text_model import Predictions as Predictions
    from model.text_model import TextModel as TextModel
    from model.text_model import load as load
    from model.tokenization.tokenizer import Tokenizer as Tokenizer
    from model.types import AttentionOptions as AttentionOptions
    from model.types import Batch as Batch
    from model.types import Choice as Choice
    from model.types import Classifier as Classifier
    from model.types import ClassifierOutput as ClassifierOutput
    from model.types import Downsampling as Downsampling
    from model.types import Encoding as Encoding
    from model.types import Prediction as Prediction
    from model.types import Token as Token

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
    "explain.views": "Explanation",
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
    "Prediction Token",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # for type checkers, the names above that stand for themselves


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has the name
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES[name]}")
    found = module if module.__name__.endswith(f".{name}") else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
