"""What a run writes, and disks that have no room for it."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.builders import tiny_network, tiny_tokenizer
from training.errors import TrainingError
from training.fit.checkpointing import Demand, check_space, demand_of
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
        tmp_path / "state", TrainerState(), gather(network, averaged, clone(network), optimizer), {}
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


@pytest.mark.parametrize(
    ("demand", "needed"),
    [
        (Demand(state=400, present=0, checkpoint=100), 1_000_800),
        (Demand(state=400, present=390, checkpoint=100), 1_000_500),
        (Demand(state=400, present=390, checkpoint=100, is_over=True), 1_000_100),
    ],
)
def test_two_states_at_a_time_and_then_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demand: Demand, needed: int
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed))
    check_space(demand, run_dir=tmp_path / "run", output=tmp_path / "out")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed - 1))
    with pytest.raises(TrainingError, match=f" need {needed:,} bytes"):
        check_space(demand, run_dir=tmp_path / "run", output=tmp_path / "out")
