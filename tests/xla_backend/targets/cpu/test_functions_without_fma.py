"""Functions on processors that have no fused multiply-add, where products are taken apart by
splitting their factors; and powers near 1, whose logarithms are multiplied most."""

import numpy as np
import pytest

from xla_backend import library
from xla_backend.llvm.target import host_target

pytestmark = pytest.mark.skipif(not host_target().is_x86, reason="instruction sets of x86")

# None: this machine's.
ISAS = [None, "AVX2", "SSE4_2"]


def run(function: str, kind: str, arrays: list[np.ndarray], isa: str | None) -> np.ndarray:
    n = arrays[0].size
    names = [f"x{i}" for i in range(len(arrays))]
    lines = [f"{name} = {kind}[{n}] parameter({i})" for i, name in enumerate(names)]
    lines.append(f"ROOT r = {kind}[{n}] {function}({', '.join(names)})")
    module = library.parse_hlo("HloModule m\n\nENTRY main {\n" + "\n".join(lines) + "\n}\n")
    options = {} if isa is None else {"xla_cpu_max_isa": isa}
    (got,) = library.compile(module, options=options).execute(arrays)
    return got


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("low, high", [(0.97, 0.9999), (1.0001, 1.03), (1.03, 1.06), (1.06, 1.2)])
def test_powers_of_numbers_near_1(low, high, isa):
    """The rounding of the factor that a mantissa is multiplied by counted in the cube of what is
    left, too: 14 units in the last place were lost at the ends of the range."""
    rng = np.random.default_rng(0)
    x = rng.uniform(low, high, 20_000)
    y = rng.uniform(-1000, 1000, x.size) / np.log2(x)
    y = np.where(np.abs(y * np.log2(x)) < 1000, y, 1.0)
    want = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("longdouble has no more digits here")
    got = run("power", "f64", [x, y], isa)
    units = np.abs(got - want) / np.spacing(want.astype(np.float64))
    assert units.max() < 1


@pytest.mark.parametrize("isa", ISAS)
def test_powers_with_huge_exponents(isa):
    x = np.array([1.0, 1.0, 1.0, -1.0, -1.0, 2.0, 0.5, 2.0, 1 + 2.0**-52, 1 - 2.0**-53])
    y = np.array([1e306, -1.7e308, 0.0, 1.797e308, 3.0, 1e306, 1e306, -1e306, 1e306, 1e306])
    want = [1, 1, 1, 1, -1, np.inf, 0, 0, np.inf, 0]
    np.testing.assert_array_equal(run("power", "f64", [x, y], isa), want)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name, function", [("sine", np.sin), ("cosine", np.cos)])
def test_sines_of_all_numbers_of_float16(name, function, isa):
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    want = function(x.astype(np.float64))
    units = np.abs(run(name, "f16", [x], isa) - want) / np.spacing(np.abs(want).astype(np.float16))
    assert units.max() < 0.6
