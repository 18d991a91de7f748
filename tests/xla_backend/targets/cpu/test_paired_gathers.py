"""Gathers of complex numbers: both parts are read at once."""

import numpy as np
import pytest
from native_checks import check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.llvm.target import host_target
from xla_backend.targets.cpu.compiler import compile_module

SIZE = 1000
TYPES = {"c64": "complex64", "c128": "complex128"}


def module(type: str, count: int) -> HloModule:
    """Elements of the first argument at the places of the second; others where the third is not."""
    return module_of(f"""x = {type}[{SIZE}] parameter(0)
      i = s32[{count}] parameter(1)
      m = pred[{count}] parameter(2)
      rows = s32[{count},1] reshape(i)
      g = {type}[{count}] gather(x, rows), offset_dims={{}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
      f = {type}[] constant((nan, 1))
      o = {type}[{count}] broadcast(f), dimensions={{}}
      ROOT r = {type}[{count}] select(m, g, o)""")


def arguments(type: str, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=SIZE) + 1j * rng.normal(size=SIZE)).astype(type)
    x[:4] = complex(np.nan, -0.0), complex(-0.0, 0), complex(np.inf, 1), complex(0, -np.inf)
    places = rng.integers(-3, SIZE + 3, count).astype(np.int32)  # those outside are clamped
    places[:4] = range(4)
    return [x, places, rng.random(count) < 0.8]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("count", [4, 15, 64, 4096, 5003])
def test_values(type: str, count: int) -> None:
    """Bit by bit: whole vectors, and some lanes of a last one."""
    x, places, chosen = given = arguments(TYPES[type], count)
    (got,) = check_native(module(type, count), given).run_arrays(given)
    fill = np.array(complex(np.nan, 1), x.dtype)
    wanted = np.where(chosen, x[np.clip(places, 0, SIZE - 1)], fill)
    parts = [np.ascontiguousarray(a).view(x.real.dtype) for a in (got, wanted)]
    np.testing.assert_array_equal(*parts)
    np.testing.assert_array_equal(*(np.signbit(p[~np.isnan(p)]) for p in parts))


@pytest.mark.skipif(host_target().lanes(32) != 16, reason="gathers are instructions of AVX-512")
@pytest.mark.parametrize("type", TYPES)
def test_how_parts_are_read(type: str) -> None:
    """As one element where there is an instruction, else as one register."""
    text = compile_module(module(type, 4096), CompileOptions()).llvm_ir
    gathers = {
        line.split("(")[0].split("@")[1]
        for line in text.splitlines()
        if "@llvm.masked.gather" in line
    }
    assert all(".v" in g and "i64" in g for g in gathers)
    assert bool(gathers) == (type == "c64")
    assert type == "c64" or "load <2 x double>" in text
