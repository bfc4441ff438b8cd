"""Exchanges the gradients of several processes, which compute parts of the same step."""

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from model.tokenization.tokenizer import Tokenizer
from training.distributed import Ranks
from training.fit.objective import word_embedding


class GradientSync:
    """Averages gradients over processes, most of them while others are still computed.

    Of the word embedding, half of a small encoder, only the rows that a step uses are exchanged.
    """

    def __init__(self, network: nn.Module, tokenizer: Tokenizer, ranks: Ranks) -> None:
        self._words = word_embedding(network).weight
        self._count = ranks.count
        specials = (tokenizer.token_id(token) for token in tokenizer.special_tokens().values())
        self._special_ids = torch.tensor([number for number in specials if number is not None])
        for tensor in (*network.parameters(), *network.buffers()):
            distributed.broadcast(tensor.detach(), src=0)
        name = next(name for name, each in network.named_parameters() if each is self._words)
        ignore: Any = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignore(network, [name])
        #: computes a pass
        self.network = DistributedDataParallel(network, gradient_as_bucket_view=True)

    def words(self, token_ids: Tensor) -> None:
        """Averages the gradients of the word embedding, after the last pass of a step."""
        gradient = self._words.grad
        if gradient is None:
            return
        used = torch.unique(torch.cat([token_ids, self._special_ids.to(token_ids.device)]))
        rows = gradient[used]
        distributed.all_reduce(rows)
        gradient[used] = rows / self._count
