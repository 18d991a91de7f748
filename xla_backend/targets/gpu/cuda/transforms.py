"""Host steps that a device does by itself: FFT, by cuFFT through CuPy.

The function does on arrays of CuPy what the host's function of the same step does on NumPy's
(`runtime.host_functions`), which is its contract. What there is no routine for runs on the host:
`stays_on_host` says so once.

API
  device_function(target) -> the function of a Host step, or None
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from xla_backend.hlo.opcode import Opcode
from xla_backend.process.bounded_cache import once
from xla_backend.targets.gpu.cuda.cupy_library import load_library

Arrays = Sequence[Any]
# fn(cupy, operands, results, attributes)
DeviceFunction = Callable[[Any, Arrays, Arrays, Any], None]
_LINEAR_ALGEBRA = (Opcode.CHOLESKY.value, Opcode.TRIANGULAR_SOLVE.value)


def device_function(target: str | Opcode) -> DeviceFunction | None:
    """What runs a step on the device, if something does.

    Raises:
      RuntimeFailure: the library that it needs is not found.
    """
    if target is not Opcode.FFT:
        return None
    load_library("cufft")
    return _fft


@once
def stays_on_host(target: str | Opcode) -> None:
    """Say of a routine of linear algebra that its operands and results go to the host and back; for
    each such routine once."""
    name = target.value if isinstance(target, Opcode) else target
    if name in _LINEAR_ALGEBRA or name.startswith("lapack"):
        warnings.warn(
            f"{name} runs on the host: no library of the GPU that CuPy reaches does it for these "
            "operands, which are copied there, and its results back",
            stacklevel=2,
        )


def _fft(cupy: Any, operands: Arrays, results: Arrays, attributes: Any) -> None:
    (x,), (result,) = operands, results
    if 0 in x.shape or 0 in result.shape:
        result[...] = 0
        return
    length = tuple(attributes.fft_length)
    axes = tuple(range(-len(length), 0))
    transform = getattr(cupy.fft, f"{attributes.fft_type.lower()}n")
    result[...] = transform(x, s=length, axes=axes)
