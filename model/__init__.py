"""Turns a text into a prediction and its attention weights.

    text -> Encoding -> Batch -> ClassifierOutput -> Prediction

The package knows neither HTTP nor training.
"""

from model.checkpoint import Checkpoint, Manifest, open_checkpoint, save_checkpoint
from model.explain import (
    Attribution,
    Attributor,
    Gradients,
    Head,
    HeadImportance,
    HeadInspector,
    HeadSteps,
    Thumbnail,
    attribute,
    leave_out,
    switch_off,
)
from model.loading import load_predictor
from model.network import (
    AttentionOutput,
    Batch,
    Classifier,
    ClassifierOutput,
    ConvAttentionClassifier,
    ConvAttentionConfig,
    EncoderClassifier,
    EncoderConfig,
    MultiHeadAttention,
    Network,
    NetworkConfig,
    Prediction,
    build_encoder,
    causal_mask,
    collate,
    padding_mask,
    reference,
)
from model.predictor import AttentionOptions, Explanation, ModelInfo, Predictor
from model.tokenization import Encoding, Token, Tokenizer

__all__ = [
    "AttentionOptions",
    "AttentionOutput",
    "Attribution",
    "Attributor",
    "Batch",
    "Checkpoint",
    "Classifier",
    "ClassifierOutput",
    "ConvAttentionClassifier",
    "ConvAttentionConfig",
    "EncoderClassifier",
    "EncoderConfig",
    "Encoding",
    "Explanation",
    "Gradients",
    "Head",
    "HeadImportance",
    "HeadInspector",
    "HeadSteps",
    "Manifest",
    "ModelInfo",
    "MultiHeadAttention",
    "Network",
    "NetworkConfig",
    "Prediction",
    "Predictor",
    "Thumbnail",
    "Token",
    "Tokenizer",
    "attribute",
    "build_encoder",
    "causal_mask",
    "collate",
    "leave_out",
    "load_predictor",
    "open_checkpoint",
    "padding_mask",
    "reference",
    "save_checkpoint",
    "switch_off",
]
