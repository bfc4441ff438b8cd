"""A training step where nothing is computed: all stays on the device, and nothing is read back.

Reading a value on the host makes a GPU wait, and is an error on this device. Two rows at least: it
takes tensors of one number for constants.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recipes.mpnet import load_mpnet
from tests.builders import tiny_network, tiny_tokenizer
from tests.fake_device import DEVICE, FakeDevice
from tests.recipes.tiny_mpnet import write_mpnet
from tests.training.tiny_runs import build_trainer
from training.device import Accelerator
from training.fit.recipe import Recipe
from training.fit.rows import EncodedRows, load_steps

PADDED = ["good film", "a bad, bad film", "good"]
EVEN = ["good film", "bad film", "good cast"]
TEXTS = pytest.mark.parametrize("texts", [PADDED, EVEN])
BFLOAT16 = pytest.mark.parametrize("bfloat16", [False, True])
RECIPE = Recipe.model_validate(
    {"batch_size": 3, "epochs": 1, "token_dropout": 0.2, "embedding_l2": 0.1}
)
# What autocast turns to 16 bits in the networks here; all else it leaves alone on this device.
LOWERED = ("linear", "matmul", "scaled_dot_product_attention")


def lowered(name: str) -> Callable[..., Tensor]:
    """An operator that computes in 16 bits, as under autocast."""
    operator: Callable[..., Tensor] = getattr(torch.ops.aten, name)

    def cast(value: object) -> object:
        is_float = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(torch.bfloat16) if is_float else value  # type: ignore[attr-defined]

    def run(*args: object, **options: object) -> Tensor:
        with torch.autocast(DEVICE.type, enabled=False):
            return operator(*map(cast, args), **{key: cast(of) for key, of in options.items()})

    return run


@pytest.fixture(scope="module", autouse=True)
def _autocast() -> Iterator[None]:
    """Gives the device an autocast, which its backend does not bring."""
    torch.get_device_module(DEVICE).get_amp_supported_dtype = lambda: [torch.bfloat16]
    with torch.library._scoped_library("_", "IMPL") as every:
        every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
        with torch.library._scoped_library("aten", "IMPL") as aten:
            for name in LOWERED:
                aten.impl(name, lowered(name), "AutocastPrivateUse1")
            yield


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


def step(
    device: FakeDevice, network: nn.Module, texts: list[str], *, bfloat16: bool, soft: bool = False
) -> None:
    tokenizer = tiny_tokenizer()
    targets = np.full((len(texts), 2), 0.5, np.float32) if soft else None
    rows = EncodedRows([tokenizer.encode(text) for text in texts], [1, 0, 1], targets)
    device.place(network)
    with device.on():
        accelerator = Accelerator(DEVICE, bfloat16)
        trainer = build_trainer(network, rows, RECIPE, accelerator=accelerator)
        (step,) = load_steps(rows, [[0, 1, 2]], pad_token_id=0, accelerator=accelerator)
        (batch,) = step.batches
        assert (batch.inputs.key_padding_mask is None) == (texts is EVEN)
        trainer.training_step(step)
    assert trainer.step == 1
    assert {batch.inputs.input_ids.device, batch.label_ids.device, batch.targets.device} == {DEVICE}
    gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
    assert {gradient.device for gradient in gradients} == {DEVICE}
    assert {gradient.dtype for gradient in gradients} == {torch.float32}


@TEXTS
@BFLOAT16
@pytest.mark.parametrize("soft", [False, True])
def test_a_step_stays_on_the_device(
    device: FakeDevice, texts: list[str], *, bfloat16: bool, soft: bool
) -> None:
    network = tiny_network().train()
    seen: list[torch.dtype] = []

    def note(_: nn.Module, __: object, output: Tensor) -> None:
        seen.append(output.dtype)

    network.layers[0].get_submodule("intermediate").register_forward_hook(note)
    step(device, network, texts, bfloat16=bfloat16, soft=soft)
    assert seen == [torch.bfloat16 if bfloat16 else torch.float32]


@TEXTS
@BFLOAT16
def test_a_step_of_the_teacher_stays_on_the_device(
    device: FakeDevice, tmp_path: Path, texts: list[str], *, bfloat16: bool
) -> None:
    folder = write_mpnet(tmp_path)
    teacher = load_mpnet(folder, num_labels=2, dropout=0.1, attention_dropout=0.1, seed=0)
    step(device, teacher.train(), texts, bfloat16=bfloat16)
