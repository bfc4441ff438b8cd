"""Makes a device that computes nothing, for tests of the way through a GPU without one.

`FakeTensorMode` carries shapes, types and devices through every operation of a backend that has no
kernels. So a test notices tensors of two devices in one operation, and a value that is read on the
host. It does not notice wrong numbers, kernels that CUDA lacks, memory or speed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("gpu")  # once a process
DEVICE = torch.device("gpu", 0)
Module = TypeVar("Module", bound=nn.Module)


class FakeDevice:
    """The device while it is in use; everything of one test comes from the same one."""

    def __init__(self) -> None:
        self._mode = FakeTensorMode()

    def place(self, module: Module) -> Module:
        """Moves a module to the device; its numbers are gone."""
        for part in module.modules():
            for name, parameter in part._parameters.items():
                if parameter is not None:
                    part._parameters[name] = nn.Parameter(
                        self._fake(parameter.detach()), requires_grad=parameter.requires_grad
                    )
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[name] = self._fake(buffer)
        return module

    def tensor(self, *shape: int, dtype: torch.dtype) -> Tensor:
        return self._fake(torch.empty(*shape, dtype=dtype))

    def _fake(self, tensor: Tensor) -> Tensor:
        return FakeTensor(self._mode, tensor.to("meta"), DEVICE)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Computes nothing in here, but looks at every operation."""
        with self._mode:
            yield
