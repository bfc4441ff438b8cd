"""What `auto` means: a function of what the device can do and of the checkpoint's record."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from model import load_predictor, open_checkpoint
from model.backends.device import (
    DtypeChoice,
    choose_backend,
    choose_dtype,
    dtype_name,
)
from model.checkpoint.manifest import Precision
from tests.builders import precision, precision_set, tiny_checkpoint

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
FINE = precision()
POOR = precision(precision_set(lost=9, gained=1))


def choose(
    name: str, have: set[str], record: Sequence[Precision], *, mkldnn: bool = True
) -> DtypeChoice:
    """Chooses for a processor that has these features alone."""
    with (
        patch.object(torch.cpu, "get_capabilities", lambda: dict.fromkeys(have, True)),
        patch.object(torch._C, "_has_mkldnn", mkldnn),
    ):
        return choose_dtype(name, CPU, record)


@pytest.mark.parametrize(
    ("have", "record", "dtype", "reason"),
    [
        ({"avx512_bf16", "avx512_vnni"}, (FINE,), "bfloat16", "multiplies bfloat16 natively"),
        (
            {"avx512_vnni"},
            (FINE,),
            "int8",
            "has no bfloat16, and int8 was measured within 0.2 points of float32 "
            "(+0.00 over 1,000 rows)",
        ),
        (
            {"avx512_vnni"},
            (POOR,),
            "float32",
            "has no bfloat16, and int8 was not within 0.2 points of float32 "
            "(-0.80 over 1,000 rows)",
        ),
        (
            {"avx512_vnni"},
            (),
            "float32",
            "has no bfloat16, and the checkpoint has no record of int8",
        ),
        ({"avx2"}, (FINE,), "float32", "has neither bfloat16 nor int8"),
    ],
)
def test_a_processor(
    have: set[str], record: tuple[Precision, ...], dtype: str, reason: str
) -> None:
    choice = choose("auto", have, record)

    assert dtype_name(choice.dtype) == dtype
    assert choice.reason == f"auto: this processor {reason}"


@pytest.mark.parametrize(
    ("capability", "dtype", "reason"),
    [
        ((9, 0), "bfloat16", "multiplies bfloat16 natively"),
        ((7, 5), "float16", "has no bfloat16, and multiplies float16 natively"),
        ((6, 1), "float32", "has neither bfloat16 nor float16"),
    ],
)
def test_a_gpu_never_computes_in_int8(
    capability: tuple[int, int], dtype: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": True})

    choice = choose_dtype("auto", GPU, [FINE])

    assert (dtype_name(choice.dtype), choice.reason) == (dtype, f"auto: this GPU {reason}")


def test_the_reason_names_who_set_the_type() -> None:
    choice = choose_dtype("float32", CPU, set_by="HEADLIGHT_DTYPE")

    assert choice == DtypeChoice(torch.float32, "set by HEADLIGHT_DTYPE")


def test_the_reason_goes_with_the_model(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_checkpoint(tmp_path / "tiny"))
    choice = DtypeChoice(torch.float32, "auto: because")

    assert choose_backend(checkpoint, device=CPU, dtype=choice).dtype_reason == "auto: because"
    info = load_predictor(checkpoint, device=CPU, dtype=choice).info
    assert (info.dtype, info.dtype_reason) == ("float32", "auto: because")
    plain = load_predictor(checkpoint, device=CPU, dtype=torch.float32).info
    assert plain.dtype_reason == "set by the caller"
