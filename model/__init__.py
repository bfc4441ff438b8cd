"""Turns a text into a prediction and its attention weights.

    text -> Encoding -> Batch -> ClassifierOutput -> Prediction

The package knows neither HTTP nor training.
"""

from model.architecture import Network, NetworkConfig
from model.attention import AttentionOutput, MultiHeadAttention
from model.attribution import Attribution, Attributor, attribute
from model.batch import Batch, collate
from model.checkpoint import Checkpoint, open_checkpoint
from model.classifier import Classifier, ClassifierOutput
from model.config import ConvAttentionConfig, EncoderConfig
from model.conv_attention import ConvAttentionClassifier
from model.encoder import EncoderClassifier, build_encoder
from model.gradients import Gradients, HeadImportance
from model.interventions import Head, leave_out, switch_off
from model.loading import load_predictor
from model.manifest import Manifest
from model.masks import causal_mask, padding_mask
from model.prediction import Prediction
from model.predictor import Explanation, ModelInfo, Predictor, Question
from model.saving import save_checkpoint
from model.steps import HeadInspector, HeadSteps
from model.thumbnails import Thumbnail
from model.tokenizer import Encoding, Token, Tokenizer

__all__ = [
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
    "Question",
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
    "save_checkpoint",
    "switch_off",
]
