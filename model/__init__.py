"""Turns a text into a prediction and its attention weights.

    text -> Encoding -> Batch -> ClassifierOutput -> Prediction

The package knows neither HTTP nor training.
"""

from model.backends.base import collate
from model.checkpoint.manifest import Manifest
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.saving import save_checkpoint
from model.explain.attention_steps import HeadInspector, HeadSteps
from model.explain.attribution import Attribution, Attributor, attribute
from model.explain.gradients import Gradients, HeadImportance
from model.explain.interventions import Head, leave_out, switch_off
from model.explain.leave_one_out import LeaveOut, LeaveOutAttribution, UnitChange
from model.explain.units import TextUnits
from model.loading import load_predictor
from model.network import reference
from model.network.architecture import Network, NetworkConfig
from model.network.attention import AttentionOutput, MultiHeadAttention
from model.network.config import ConvAttentionConfig, EncoderConfig
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
