"""Builds the networks and the batches that they read."""

from model.network import reference
from model.network.architecture import Network, NetworkConfig
from model.network.attention import AttentionOutput, MultiHeadAttention
from model.network.batch import Batch, collate, send
from model.network.classifier import Classifier, ClassifierOutput
from model.network.config import ConvAttentionConfig, EncoderConfig
from model.network.conv_attention import ConvAttentionClassifier, build_conv_attention
from model.network.encoder import EncoderClassifier, build_encoder
from model.network.families import KINDS
from model.network.labels import check_label
from model.network.masks import causal_mask, padding_mask
from model.network.prediction import Prediction

__all__ = [
    "KINDS",
    "AttentionOutput",
    "Batch",
    "Classifier",
    "ClassifierOutput",
    "ConvAttentionClassifier",
    "ConvAttentionConfig",
    "EncoderClassifier",
    "EncoderConfig",
    "MultiHeadAttention",
    "Network",
    "NetworkConfig",
    "Prediction",
    "build_conv_attention",
    "build_encoder",
    "causal_mask",
    "check_label",
    "collate",
    "padding_mask",
    "reference",
    "send",
]
