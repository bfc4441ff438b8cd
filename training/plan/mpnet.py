"""MPNet, a larger encoder that teaches: from a batch of token ids to logits.

Legend: B batch, T tokens, D hidden size, H heads, C classes.

Song et al. 2020, "MPNet: masked and permuted pre-training for language understanding". Its layers
are BERT's, with a bias for the distance of two tokens added to every score; the bias is shared by
all layers (Raffel et al. 2020, T5). The classifier here reads the mean of all tokens, as the
sentence embeddings that it is begun from were trained.
"""

import math
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from model.batch import Batch
from model.classifier import ClassifierOutput
from model.encoder import EncoderLayer
from model.errors import CheckpointError
from model.files import read_object

_PAD_TOKEN_ID = 1
FIRST_POSITION = _PAD_TOKEN_ID + 1  # of a text; the rows before it are for padding
_BUCKETS, _MAX_DISTANCE = 32, 128
# (theirs, ours)
_LAYER_NAMES = (
    ("attention.attn.q.", "attention.query."),
    ("attention.attn.k.", "attention.key."),
    ("attention.attn.v.", "attention.value."),
    ("attention.attn.o.", "attention.output."),
    ("attention.LayerNorm.", "attention_norm."),
    ("intermediate.dense.", "intermediate."),
    ("output.dense.", "output."),
    ("output.LayerNorm.", "output_norm."),
)


class MPNetClassifier(nn.Module):
    """Embeddings, layers with a shared bias of distance, the mean of all tokens, a linear map.

    Args:
        vocab_size: rows of the token embedding.
        hidden_size: D.
        num_layers: encoder layers.
        num_heads: H.
        intermediate_size: features inside the feed-forward parts.
        num_labels: C.
        max_position_embeddings: rows of the position embedding; two more than the largest T.
        dropout: after embeddings and sublayers, and before the classifier, in training.
        attention_dropout: of attention weights, in training.
        layer_norm_eps: added to the variance.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        num_layers: int,
        num_heads: int,
        intermediate_size: int,
        num_labels: int,
        max_position_embeddings: int,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        layer_norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, hidden_size, padding_idx=_PAD_TOKEN_ID)
        self.positions = nn.Embedding(max_position_embeddings, hidden_size)
        self.norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.dropout = nn.Dropout(dropout)
        self.distances = nn.Embedding(_BUCKETS, num_heads)
        self.layers = nn.ModuleList(
            EncoderLayer(
                hidden_size=hidden_size,
                num_heads=num_heads,
                intermediate_size=intermediate_size,
                dropout=dropout,
                attention_dropout=attention_dropout,
                layer_norm_eps=layer_norm_eps,
            )
            for _ in range(num_layers)
        )
        self.classifier = nn.Linear(hidden_size, num_labels)

    def forward(self, batch: Batch, *, need_weights: bool = False) -> ClassifierOutput:
        """Classifies a batch.

        Args:
            batch: B texts of at most T tokens.
            need_weights: not offered: a teacher is asked for logits alone.

        Returns:
            Logits, float32 [B, C], and no weights.

        Raises:
            NotImplementedError: weights are asked for.
        """
        if need_weights:
            raise NotImplementedError("a teacher gives no attention weights")
        length = batch.input_ids.shape[1]
        places = self.positions.weight[FIRST_POSITION : FIRST_POSITION + length]  # [T, D]
        states = self.dropout(self.norm(self.tokens(batch.input_ids) + places))  # [B, T, D]
        bias = self._bias(length)  # [1, H, T, T]
        padding = batch.key_padding_mask
        if padding is not None:
            bias = bias.masked_fill(padding[:, None, None, :], -math.inf)  # [B, H, T, T]
        for layer in self.layers:
            states = layer(states, bias=bias, need_weights=False).hidden_states
        if padding is None:
            mean = states.mean(dim=1)  # [B, D]
        else:
            states = states.masked_fill(padding.unsqueeze(-1), 0.0)
            mean = states.sum(dim=1) / (~padding).sum(dim=1, keepdim=True)  # [B, D]
        logits: Tensor = self.classifier(self.dropout(mean)).float()  # [B, C]
        return ClassifierOutput(logits, ())

    def _bias(self, length: int) -> Tensor:
        places = torch.arange(length, device=self.distances.weight.device)
        buckets = distance_buckets(places[None, :] - places[:, None])  # [T, T]
        biases: Tensor = self.distances(buckets).permute(2, 0, 1).unsqueeze(0)
        return biases.contiguous()  # [1, H, T, T]


def distance_buckets(distances: Tensor) -> Tensor:
    """Numbers distances: each short one by itself, long ones in ever wider groups (T5).

    Args:
        distances: place of the key less that of the query, any shape.

    Returns:
        Numbers from 0 to 31 of the same shape; the upper half are of keys that come later.
    """
    half = _BUCKETS // 2
    exact = half // 2
    far = distances.abs()
    grown = exact + (
        torch.log(far.clamp(min=1).float() / exact)
        / math.log(_MAX_DISTANCE / exact)
        * (half - exact)
    ).to(torch.int64)
    return half * (distances > 0) + torch.where(far < exact, far, grown.clamp(max=half - 1))


def load_mpnet(
    folder: Path, *, num_labels: int, dropout: float, attention_dropout: float, seed: int
) -> MPNetClassifier:
    """Reads a pretrained MPNet of a transformers folder; the classifier is drawn afresh.

    Args:
        folder: `config.json` and `model.safetensors`.
        num_labels: C.
        dropout: after embeddings and sublayers, and before the classifier, in training.
        attention_dropout: of attention weights, in training.
        seed: of the classifier.

    Raises:
        CheckpointError: a file is missing, or the network is another one.
    """
    config = read_object(folder / "config.json")
    if config.get("model_type") != "mpnet":
        raise CheckpointError(
            folder / "config.json", f"model_type is {config.get('model_type')!r}, must be 'mpnet'"
        )
    network = MPNetClassifier(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        intermediate_size=config["intermediate_size"],
        num_labels=num_labels,
        max_position_embeddings=config["max_position_embeddings"],
        dropout=dropout,
        attention_dropout=attention_dropout,
        layer_norm_eps=config["layer_norm_eps"],
    )
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    found = {_own_name(name): weight for name, weight in stored.items()}
    needed = {name for name, _ in network.named_parameters() if not name.startswith("classifier.")}
    missing = sorted(needed - found.keys())
    if missing:
        raise CheckpointError(folder / "model.safetensors", f"lacks {', '.join(missing[:3])}")
    network.load_state_dict({name: found[name] for name in needed}, strict=False)
    generator = torch.Generator().manual_seed(seed)
    nn.init.normal_(network.classifier.weight, std=0.02, generator=generator)
    nn.init.zeros_(network.classifier.bias)
    return network


def _own_name(name: str) -> str:
    name = name.removeprefix("mpnet.")
    table = {
        "embeddings.word_embeddings.": "tokens.",
        "embeddings.position_embeddings.": "positions.",
        "embeddings.LayerNorm.": "norm.",
        "encoder.relative_attention_bias.": "distances.",
    }
    for theirs, ours in table.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    if name.startswith("encoder.layer."):
        number, _, rest = name.removeprefix("encoder.layer.").partition(".")
        for theirs, ours in _LAYER_NAMES:
            if rest.startswith(theirs):
                return f"layers.{number}.{ours}{rest.removeprefix(theirs)}"
    return name
