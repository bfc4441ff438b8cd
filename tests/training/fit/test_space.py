"""What a run writes, and disks that have no room for it."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch

from tests.builders import tiny_network, tiny_tokenizer
from tests.matching import exactly
from training.errors import NoSpaceError
from training.fit.checkpointing import Demand, check_space, demand_of
from training.fit.state import TrainerState, clone, gather, save_state, size_of_state

Usage = namedtuple("Usage", ["total", "used", "free"])


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


def test_a_disk_without_room_is_refused_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir, output = tmp_path / "a" / "out.run", tmp_path / "a" / "out"
    demand = Demand(state=4_000_000, present=0, checkpoint=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 9_000_000))
    check_space(demand, run_dir=run_dir, output=output)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 8_999_999))
    message = (
        f"{run_dir} and {output}: the states of a run and its checkpoint need 9,000,000 bytes, and "
        "8,999,999 are free there: make room, or put the states on another disk with --run-dir"
    )
    with pytest.raises(NoSpaceError, match=exactly(message)):
        check_space(demand, run_dir=run_dir, output=output)
