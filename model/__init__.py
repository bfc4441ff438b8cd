"""The network, its tokenizer and its checkpoint: from a text to a prediction and its attention.

    text -> Encoding -> Batch -> ClassifierOutput -> Prediction

Knows nothing of HTTP or of training.
"""

from model.attention import AttentionOutput, MultiHeadAttention
from model.batch import Batch, collate
from model.checkpoint import Checkpoint, open_checkpoint, save_checkpoint
from model.classifier import Classifier, ClassifierOutput
from model.config import EncoderConfig
from model.encoder import EncoderClassifier, build_encoder
from model.manifest import Manifest
from model.predictor import Explanation, ModelInfo, Prediction, Predictor, load_predictor
from model.tokenizer import Encoding, Token, Tokenizer

__all__ = [
    "AttentionOutput",
    "Batch",
    "Checkpoint",
    "Classifier",
    "ClassifierOutput",
    "EncoderClassifier",
    "EncoderConfig",
    "Encoding",
    "Explanation",
    "Manifest",
    "ModelInfo",
    "MultiHeadAttention",
    "Prediction",
    "Predictor",
    "Token",
    "Tokenizer",
    "build_encoder",
    "collate",
    "load_predictor",
    "open_checkpoint",
    "save_checkpoint",
]
