"""Differentiates the log-odds of a label by the embeddings of a text or by attention heads.

Legend: T tokens, D embedding size, K points on a path, L layers, H heads, C classes.

f is log(p / (1 - p)) of a label's calibrated probability p, computed from the logits. Derivatives
use the float32 network from which the serving network was made.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.errors import NotFiniteError
from model.explain.attribution import HeadImportance
from model.explain.on_demand import OnDemand
from model.network.architecture import Network
from model.network.config import NetworkConfig
from model.types import Batch, Choice, Encoding, Prediction

_MOST_BASELINES = 512  # of texts with as many different lengths


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The two ends of a path: a text and its baseline."""

    encoding: Encoding
    prediction: Prediction
    label: str  # whose log-odds f are differentiated
    choice: Choice  # the labels that f counts
    value: float
    baseline_value: float
    text: Tensor  # embeddings of the tokens, float32 [T, D]
    baseline: Tensor  # the same, with padding in place of every token that is not special


class Gradients:
    """Derivatives for one checkpoint; several threads may use them at once."""

    def __init__(
        self,
        network: OnDemand[Network],
        config: NetworkConfig,
        *,
        temperature: float,
        pad_token_id: int,
        device: str = "cpu",
    ) -> None:
        self._network = network
        self._device = torch.device(device)
        self._whole = Choice(config.labels, temperature)
        self._heads = config.num_layers, config.num_heads
        self._pad_token_id = pad_token_id
        self._baselines: OrderedDict[bytes, Tensor] = OrderedDict()  # logits [C] by their ids

    def ends(
        self, encoding: Encoding, *, label: str | None = None, choice: Choice | None = None
    ) -> Endpoints:
        """Classifies a text and its baseline, for a label or the predicted one, among a choice.

        Raises:
            ValueError: the model has no such label, or the encoding has no tokens.
            NotFiniteError: the network overflowed.
        """
        ends = self._embed(encoding)
        with self._network.use() as network, torch.no_grad():
            logits = network(self._batch(encoding), token_embeddings=ends[0][None]).logits  # [1, C]
        return self._ends(encoding, label, choice, logits[0], *ends)

    def at_text(
        self, encoding: Encoding, *, label: str | None = None, choice: Choice | None = None
    ) -> tuple[Endpoints, NDArray[np.float64]]:
        """Returns `ends`, and what `along` computes at point 1 with weight 1, in one pass."""
        embedded = self._embed(encoding)
        with self._network.use() as network, torch.enable_grad():
            at = embedded[0][None].clone().requires_grad_()  # [1, T, D]
            logits = network(self._batch(encoding), token_embeddings=at).logits  # [1, C]
            ends = self._ends(encoding, label, choice, logits[0].detach(), *embedded)
            log_odds = self._log_odds(logits, ends.label, ends.choice)
            (gradient,) = torch.autograd.grad(log_odds.sum(), at)
        return ends, self._shares(gradient, ends, np.ones(1))

    def along(
        self, ends: Endpoints, points: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Sums the gradients of f at points on the straight path, times the difference of its ends.

        The K points go from 0, the baseline, to 1, the text, and have a weight each. The sums are
        float64 [T]; 0 for special tokens, which do not change. NotFiniteError: one overflowed.
        """
        steps = torch.tensor(points, dtype=torch.float32, device=self._device)
        at = torch.lerp(ends.baseline, ends.text, steps[:, None, None])  # [K, T, D]
        with self._network.use() as network, torch.enable_grad():
            at.requires_grad_()
            batch = self._batch(ends.encoding, len(points))
            logits = network(batch, token_embeddings=at).logits  # [K, C]
            # Each term of the sum depends on one row, so each row gets its own gradient.
            log_odds = self._log_odds(logits, ends.label, ends.choice)
            (gradient,) = torch.autograd.grad(log_odds.sum(), at)
        return self._shares(gradient, ends, weights)

    def head_importance(
        self, encoding: Encoding, *, label: str | None = None, choice: Choice | None = None
    ) -> HeadImportance:
        """Computes how much f depends on each head, for one text; raises as `ends` does.

        Michel, Levy and Neubig 2019 average the derivative of the loss over a data set instead.
        """
        heads = torch.ones(self._heads, device=self._device)
        with self._network.use() as network, torch.enable_grad():
            heads.requires_grad_()
            logits = network(self._batch(encoding), head_mask=heads).logits  # [1, C]
            prediction = self._predict(logits[0].detach(), encoding, choice)
            label = prediction.best if label is None else label
            log_odds = self._log_odds(logits, label, choice or self._whole)
            (gradient,) = torch.autograd.grad(log_odds.sum(), heads)  # [L, H]
        return HeadImportance(prediction, label, _finite(gradient.abs().double().cpu().numpy()))

    def probe(self, encoding: Encoding) -> None:
        """Runs both kinds of gradients once and raises their errors."""
        self.along(self.ends(encoding), np.ones(1), np.ones(1))
        self.at_text(encoding)
        self.head_importance(encoding)

    def _batch(self, encoding: Encoding, size: int = 1) -> Batch:
        """Repeats a text, for passes over rows that differ in their embeddings."""
        ids = torch.tensor(encoding.input_ids, dtype=torch.int64, device=self._device)  # [T]
        mask: Tensor | None = None
        if encoding.head_mask is not None:
            mask = torch.tensor(encoding.head_mask, device=self._device)[:, None]  # [L, 1, H]
            mask = mask.expand(-1, size, -1)
        return Batch(ids.expand(size, -1), None, mask)

    def _embed(self, encoding: Encoding) -> tuple[Tensor, Tensor, Tensor]:
        """Embeds a text and its baseline, float32 [T, D]; computes the baseline's logits, [C]."""
        if encoding.tokens is None:
            raise ValueError("which tokens are special is not known: encode with with_tokens=True")
        ids = torch.tensor(encoding.input_ids, dtype=torch.int64)  # [T]
        special = torch.tensor([token.special for token in encoding.tokens], dtype=torch.bool)
        padded = torch.where(special, ids, self._pad_token_id)  # [T]
        with self._network.use() as network, torch.no_grad():
            both = network.embed_tokens(torch.stack([ids, padded]).to(self._device))  # [2, T, D]
            logits = self._baselines.get(key := padded.numpy().tobytes())
            if logits is None:
                output = network(self._batch(encoding), token_embeddings=both[1:])
                # Several threads share the dictionary, so each change of it is one call.
                self._baselines[key] = logits = output.logits[0].clone()
                if len(self._baselines) > _MOST_BASELINES:
                    self._baselines.popitem(last=False)
        return both[0], both[1], logits

    def _ends(
        self,
        encoding: Encoding,
        label: str | None,
        choice: Choice | None,
        logits: Tensor,
        text: Tensor,
        baseline: Tensor,
        baseline_logits: Tensor,
    ) -> Endpoints:
        prediction = self._predict(logits, encoding, choice)
        label = prediction.best if label is None else label
        choice = choice or self._whole
        both = self._log_odds(torch.stack([logits, baseline_logits]), label, choice)
        value, below = _finite(both.cpu().numpy(), what="log-odds").tolist()
        return Endpoints(encoding, prediction, label, choice, value, below, text, baseline)

    def _shares(
        self, gradient: Tensor, ends: Endpoints, weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The weighted sum over K gradients [K, T, D], times the way between the ends."""
        difference = (ends.text - ends.baseline).double()  # [T, D]
        by_token = (gradient.double() * difference).sum(dim=-1)  # [K, T]
        shares: NDArray[np.float64] = weights @ by_token.cpu().numpy()
        return _finite(shares + 0.0)  # 0 instead of -0

    def _predict(self, logits: Tensor, encoding: Encoding, choice: Choice | None) -> Prediction:
        """Turns the logits of a text, [C], into its prediction."""
        whole, row = self._whole, logits[None].cpu().numpy()
        (made,) = Prediction.of_batch(row, [encoding], whole.labels, whole.temperature)
        if isinstance(made, NotFiniteError):
            raise made
        return made if choice is None else choice.narrow(made)

    def _log_odds(self, logits: Tensor, label: str, choice: Choice) -> Tensor:
        """Computes f of each of B rows, float64 [B]."""
        if label not in choice.labels:
            raise ValueError(
                f"label {label!r} does not exist: the model has {', '.join(choice.labels)}"
            )
        labels = self._whole.labels
        others = [labels.index(other) for other in choice.labels if other != label]
        scaled = logits.double() / choice.temperature  # [B, C]
        return scaled[:, labels.index(label)] - scaled[:, others].logsumexp(dim=1)


def _finite(numbers: NDArray[np.float64], *, what: str = "gradients") -> NDArray[np.float64]:
    """Returns numbers of one text if all are finite."""
    if not np.isfinite(numbers).all():
        raise NotFiniteError(1, 1, what=what)
    return numbers
