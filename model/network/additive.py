"""Scores pairs of projected queries and keys additively.

Legend: B batch, Q query length, K key length, H heads, D head_dim.

Bahdanau et al. 2015, "Neural machine translation by jointly learning to align and translate".
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin


class AdditiveScore(LazyModuleMixin, nn.Module):
    """The score w . tanh(query + key), with one vector w per head.

    Args:
        num_heads: H.
        head_dim: D; None takes D from the first call.
    """

    weight: nn.UninitializedParameter

    def __init__(self, *, num_heads: int, head_dim: int | None) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.weight = nn.UninitializedParameter()
        if head_dim is not None:
            self._draw(head_dim)

    def initialize_parameters(self, queries: Tensor, keys: Tensor) -> None:
        """Draws the vectors at the first call; torch calls this."""
        del keys
        self._draw(queries.shape[-1])

    def _draw(self, head_dim: int) -> None:
        if isinstance(self.weight, nn.UninitializedParameter):
            self.weight.materialize((self.num_heads, head_dim))  # [H, D]
            nn.init.xavier_uniform_(self.weight)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores every pair of a query and a key.

        Args:
            queries: [B, H, Q, D].
            keys: [B, H, K, D].

        Returns:
            [B, H, Q, K].
        """
        sums = torch.tanh(queries.unsqueeze(3) + keys.unsqueeze(2))  # [B, H, Q, K, D]
        return torch.einsum("bhqkd,hd->bhqk", sums, self.weight)  # [B, H, Q, K]
