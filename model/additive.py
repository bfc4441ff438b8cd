"""The additive score of attention: from projected queries and keys to a number for each pair.

Legend: B batch, Q query length, K key length, H heads, D head_dim.

Bahdanau et al. 2015, "Neural machine translation by jointly learning to align and translate".
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin


class AdditiveScore(LazyModuleMixin, nn.Module):
    """w . tanh(query + key), with a vector w for each head.

    Args:
        num_heads: H.
        head_dim: D; None: as at the first call.
    """

    weight: nn.UninitializedParameter

    def __init__(self, *, num_heads: int, head_dim: int | None) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.weight = nn.UninitializedParameter()
        if head_dim is not None:
            self._draw(head_dim)

    def initialize_parameters(self, queries: Tensor, keys: Tensor) -> None:
        """Draws the vectors when the width of a head is known; called by torch."""
        del keys
        self._draw(queries.shape[-1])

    def _draw(self, head_dim: int) -> None:
        if isinstance(self.weight, nn.UninitializedParameter):
            self.weight.materialize((self.num_heads, head_dim))  # [H, D]
            nn.init.xavier_uniform_(self.weight)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores every pair.

        Args:
            queries: [B, H, Q, D].
            keys: [B, H, K, D].

        Returns:
            [B, H, Q, K].
        """
        sums = torch.tanh(queries.unsqueeze(3) + keys.unsqueeze(2))  # [B, H, Q, K, D]
        return torch.einsum("bhqkd,hd->bhqk", sums, self.weight)  # [B, H, Q, K]
