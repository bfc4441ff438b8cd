"""From texts to predictions: a loaded network with its tokenizer, labels and temperature.

Legend: B batch, T tokens, L chosen layers, H chosen heads, C labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from model.batch import Batch, collate
from model.checkpoint import Checkpoint
from model.classifier import Classifier
from model.encoder import EncoderClassifier
from model.manifest import Metric
from model.packed import PackedEncoder, can_pack
from model.text import check_text
from model.tokenizer import Encoding, Tokenizer, Truncation

_WARM_UP_TEXT = "The light is on and the road ahead is clear."
_WARM_UP_PASSES = 3


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of one text.

    Args:
        label: the most probable class.
        score: its probability.
        probabilities: of every class, in the order of the labels, calibrated; they sum to 1.
        token_count: tokens that the model read, special tokens included.
        truncated: True if a part of the text was cut off.
    """

    label: str
    score: float
    probabilities: dict[str, float]
    token_count: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """A prediction with the weights of the same forward pass.

    Args:
        prediction: what the model says of the text.
        encoding: the text as the model read it, with its tokens.
        layers: numbers of the chosen layers, ascending.
        heads: numbers of the chosen heads, ascending.
        attention: float32 [L, H, T, T]; the weight that query token q gives to key token k.
    """

    prediction: Prediction
    encoding: Encoding
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    attention: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of the loaded model.

    Args:
        name: of the checkpoint folder.
        version: the first 12 hex digits of the SHA-256 of the weights file.
        architecture: name of the network.
        labels: in the order of the classes.
        num_layers: layers that give attention weights.
        num_heads: heads of each layer.
        hidden_size: features of a token.
        parameters: how many numbers were trained.
        max_length: the most tokens that the model reads.
        temperature: logits are divided by it before the softmax.
        device: where the network runs.
        dtype: what its projections compute in.
        metrics: the accuracy recorded at training.
    """

    name: str
    version: str
    architecture: str
    labels: tuple[str, ...]
    num_layers: int
    num_heads: int
    hidden_size: int
    parameters: int
    max_length: int
    temperature: float
    device: str
    dtype: str
    metrics: tuple[Metric, ...]


class Predictor:
    """Answers for one loaded checkpoint, to several threads at once if need be.

    Args:
        network: in evaluation mode, on `device`.
        tokenizer: that of the same checkpoint.
        info: what is known of the model.
        device: where the network runs.
    """

    def __init__(
        self, network: Classifier, tokenizer: Tokenizer, *, info: ModelInfo, device: torch.device
    ) -> None:
        self.info = info
        self._network = network
        self._tokenizer = tokenizer
        self._device = device

    def encode(
        self, text: str, *, truncation: Truncation = "right", with_tokens: bool = False
    ) -> Encoding:
        """Checks and encodes one text; may be called from any thread.

        Args:
            text: any string.
            truncation: which end is cut off if the text does not fit, or `error`.
            with_tokens: whether offsets and words are wanted too, as `explain` needs.

        Raises:
            InputError: the text is blank, not valid Unicode, or too long with `error`.
        """
        check_text(text)
        return self._tokenizer.encode(text, truncation=truncation, with_tokens=with_tokens)

    def predict(self, encodings: Sequence[Encoding]) -> list[Prediction]:
        """Classifies texts in one forward pass by the fused path.

        Args:
            encodings: B texts, at least one.

        Returns:
            A prediction for each, in their order.
        """
        with torch.inference_mode():
            output = self._network(self._collate(encodings))
            return self._predictions(output.logits, encodings)

    def explain(
        self,
        encoding: Encoding,
        *,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> Explanation:
        """Classifies one text by the explicit path and returns the weights of that pass.

        Args:
            encoding: the text, encoded with its tokens.
            layers: which layers are wanted, all if None; answered in ascending order, each once.
            heads: which heads of each, likewise.

        Raises:
            IndexError: a layer or head that the model does not have, or none at all.
        """
        chosen_layers = _choose(layers, self.info.num_layers, "layer")
        chosen_heads = _choose(heads, self.info.num_heads, "head")
        with torch.inference_mode():
            output = self._network(self._collate([encoding]), need_weights=True)
            length = len(encoding.input_ids)
            attention = torch.stack(
                [
                    output.attention_weights[layer][0, list(chosen_heads), :length, :length]
                    for layer in chosen_layers
                ]
            )  # [L, H, T, T]
            (prediction,) = self._predictions(output.logits, [encoding])
        return Explanation(
            prediction=prediction,
            encoding=encoding,
            layers=chosen_layers,
            heads=chosen_heads,
            attention=attention.cpu().numpy(),
        )

    def warm_up(self) -> None:
        """Runs both paths, so that the first request does not pay for what is lazy."""
        encoding = self.encode(_WARM_UP_TEXT, with_tokens=True)
        # TorchScript watches one pass and makes its code in the next.
        for _ in range(_WARM_UP_PASSES):
            self.predict([encoding])
            self.explain(encoding)

    def probe(self) -> None:
        """One small forward pass; raises what a real one would."""
        self.predict([self.encode(_WARM_UP_TEXT)])

    def _collate(self, encodings: Sequence[Encoding]) -> Batch:
        return collate(encodings, pad_token_id=self._tokenizer.pad_token_id, device=self._device)

    def _predictions(self, logits: torch.Tensor, encodings: Sequence[Encoding]) -> list[Prediction]:
        # In float64, so that probabilities sum to 1 to the last digit that JSON shows.
        scaled = logits.double() / self.info.temperature
        rows = scaled.softmax(dim=-1).tolist()  # [B, C]
        labels = self.info.labels
        predictions = []
        for row, encoding in zip(rows, encodings, strict=True):
            best = max(range(len(row)), key=row.__getitem__)
            predictions.append(
                Prediction(
                    label=labels[best],
                    score=row[best],
                    probabilities=dict(zip(labels, row, strict=True)),
                    token_count=len(encoding.input_ids),
                    truncated=encoding.truncated,
                )
            )
        return predictions


def load_predictor(
    checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype
) -> Predictor:
    """Reads the weights of a checkpoint and makes it ready to answer.

    Args:
        checkpoint: a folder that was found sound.
        device: where the network runs.
        dtype: what its projections compute in.

    Raises:
        CheckpointError: a weight is not finite, or the file changed since it was checked.
    """
    network = checkpoint.load_network()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    network.compute_in(dtype)
    network.to(device)
    info = _describe(checkpoint, parameters, device, dtype)
    ready: Classifier = network
    if isinstance(network, EncoderClassifier) and can_pack(device):
        ready = PackedEncoder(network)
    return Predictor(ready, checkpoint.tokenizer, info=info, device=device)


def _describe(
    checkpoint: Checkpoint, parameters: int, device: torch.device, dtype: torch.dtype
) -> ModelInfo:
    config = checkpoint.config
    return ModelInfo(
        name=checkpoint.name,
        version=checkpoint.version,
        architecture=config.architecture,
        labels=config.labels,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_size=config.hidden_size,
        parameters=parameters,
        max_length=checkpoint.manifest.max_length,
        temperature=checkpoint.manifest.temperature,
        device=str(device),
        dtype=str(dtype).removeprefix("torch."),
        metrics=checkpoint.manifest.metrics,
    )


def _choose(wanted: Sequence[int] | None, count: int, kind: str) -> tuple[int, ...]:
    if wanted is None:
        return tuple(range(count))
    if not wanted:
        raise IndexError(f"no {kind} is chosen: give one or more from 0 to {count - 1}, or None")
    for index in wanted:
        if not 0 <= index < count:
            raise IndexError(f"{kind} {index} does not exist: the model has 0 to {count - 1}")
    return tuple(sorted(set(wanted)))
