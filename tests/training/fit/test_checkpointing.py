"""What a run writes, and disks that have no room for it."""

from pathlib import Path

import pytest
import torch

from tests.builders import tiny_network, tiny_tokenizer
from training.fit.checkpointing import Demand, demand_of
from training.fit.state import TrainerState, clone, gather, save_state, size_of_state


@pytest.mark.parametrize("has_average", [False, True])
def test_a_state_is_about_as_large_as_it_is_said_to_be(tmp_path: Path, has_average: bool) -> None:
    network = tiny_network()
    averaged = tiny_network() if has_average else network
    optimizer = torch.optim.AdamW(network.parameters())
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    save_state(
        tmp_path / "state",
        TrainerState(),
        gather(network, averaged, clone(network), optimizer),
        {},
    )
    written = size_of_state(tmp_path / "state")

    demand = demand_of(
        network,
        tiny_tokenizer(),
        dtype=torch.float32,
        has_average=has_average,
        state_dir=tmp_path / "state",
    )

    assert demand.present == written
    # The tensors of the tiny network are so small that their names weigh as much.
    assert sum(tensor.nbytes for tensor in network.state_dict().values()) * 4 < written
    assert written <= demand.state <= 2 * written


def test_two_states_at_a_time_and_then_the_checkpoint() -> None:
    fresh = Demand(state=400, present=0, checkpoint=100)
    assert (fresh.in_run_folder, fresh.in_output) == (1_000_800, 1_000_100)
    assert fresh.on_one_disk == 1_000_800
    assert Demand(state=400, present=390, checkpoint=100).in_run_folder == 1_000_410
    over = Demand(state=400, present=390, checkpoint=100, is_over=True)
    assert (over.in_run_folder, over.on_one_disk) == (0, 1_000_100)
