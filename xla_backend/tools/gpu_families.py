"""One program of each family of kernels, in a size for the emulator and in one for the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xla_backend.hlo.module import HloModule
from xla_backend.process.light_dataclasses import dataclass

_ADD = "add {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT r = {t}[] add(a, b) }}\n"
_MAX = "max {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT r = {t}[] maximum(a, b) }}\n"


@dataclass(frozen=True, slots=True)
class Family:
    """A program of a family.

    Fields:
      what: the program in a few words, in its large size.
      small, large: HLO texts.
      product_type, product_flops: operations of matrix products that there is no way around.
      integers: what integer arguments are taken from: 0 to `integers` - 1.
    """

    name: str
    what: str
    small: str
    large: str
    product_type: str = "f32"
    product_flops: float = 0.0
    integers: int = 1

    def arguments(self, module: HloModule) -> Iterator[np.ndarray]:
        """Arguments of the small program."""
        assert module.entry is not None
        rng = np.random.default_rng(0)
        for shape in (leaf for p in module.entry.parameters for leaf in p.shape.flatten()):
            dtype = shape.element_type.numpy_dtype
            if shape.element_type.is_integral:
                yield rng.integers(0, self.integers, shape.dimensions).astype(dtype)
            else:
                yield rng.standard_normal(shape.dimensions).astype(dtype)


def _family(
    name: str,
    what: str,
    text: str,
    small: dict[str, int],
    large: dict[str, int],
    *,
    element_type: str = "f32",
    flops: Callable[[dict[str, int]], float] = lambda sizes: 0.0,
    product_type: str | None = None,
    integers: int = 1,
) -> Family:
    def filled(sizes: dict[str, int]) -> str:
        return text.format(t=element_type, **sizes)

    kind = {"f32": "tf32"}.get(element_type, element_type) if product_type is None else product_type
    return Family(name, what, filled(small), filled(large), kind, flops(large), integers)


_ELEMENTWISE = """ENTRY e {{
  x = {t}[{r},{c}] parameter(0)
  y = {t}[{r},{c}] parameter(1)
  e = {t}[{r},{c}] exponential(x)
  m = {t}[{r},{c}] multiply(e, y)
  ROOT r = {t}[{r},{c}] add(m, x)
}}"""

_TRANSPOSE = """ENTRY e {{
  x = {t}[{r},{c}] parameter(0)
  ROOT r = {t}[{c},{r}] transpose(x), dimensions={{1,0}}
}}"""

_ROWS = (
    _ADD
    + """ENTRY e {{
  x = {t}[{r},{c}] parameter(0)
  zero = {t}[] constant(0)
  ROOT r = {t}[{r}] reduce(x, zero), dimensions={{1}}, to_apply=add
}}"""
)
_COLUMNS = _ROWS.replace("[{r}] reduce", "[{c}] reduce").replace("{{1}}", "{{0}}")
_ALL = _ROWS.replace("[{r}] reduce", "[] reduce").replace("{{1}}", "{{0,1}}")

_SOFTMAX = (
    _ADD
    + _MAX
    + """ENTRY e {{
  x = {t}[{r},{c}] parameter(0)
  zero = {t}[] constant(0)
  least = {t}[] constant(-inf)
  m = {t}[{r}] reduce(x, least), dimensions={{1}}, to_apply=max
  mb = {t}[{r},{c}] broadcast(m), dimensions={{0}}
  d = {t}[{r},{c}] subtract(x, mb)
  e = {t}[{r},{c}] exponential(d)
  s = {t}[{r}] reduce(e, zero), dimensions={{1}}, to_apply=add
  sb = {t}[{r},{c}] broadcast(s), dimensions={{0}}
  ROOT r = {t}[{r},{c}] divide(e, sb)
}}"""
)

_LAYER_NORM = (
    _ADD
    + """ENTRY e {{
  x = {t}[{r},{c}] parameter(0)
  g = {t}[{c}] parameter(1)
  zero = {t}[] constant(0)
  n = {t}[] constant({c})
  eps = {t}[] constant(0.00001)
  nb = {t}[{r}] broadcast(n), dimensions={{}}
  s = {t}[{r}] reduce(x, zero), dimensions={{1}}, to_apply=add
  mean = {t}[{r}] divide(s, nb)
  meanb = {t}[{r},{c}] broadcast(mean), dimensions={{0}}
  d = {t}[{r},{c}] subtract(x, meanb)
  q = {t}[{r},{c}] multiply(d, d)
  sq = {t}[{r}] reduce(q, zero), dimensions={{1}}, to_apply=add
  var = {t}[{r}] divide(sq, nb)
  epsb = {t}[{r}] broadcast(eps), dimensions={{}}
  ve = {t}[{r}] add(var, epsb)
  rs = {t}[{r}] rsqrt(ve)
  rsb = {t}[{r},{c}] broadcast(rs), dimensions={{0}}
  gb = {t}[{r},{c}] broadcast(g), dimensions={{1}}
  normal = {t}[{r},{c}] multiply(d, rsb)
  ROOT r = {t}[{r},{c}] multiply(normal, gb)
}}"""
)

_GATHER = """ENTRY e {{
  x = {t}[{n},{c}] parameter(0)
  i = s32[{r},1] parameter(1)
  ROOT r = {t}[{r},{c}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{c}}}
}}"""

_SCATTER = (
    _ADD
    + """ENTRY e {{
  x = {t}[{n},{c}] parameter(0)
  i = s32[{r},1] parameter(1)
  u = {t}[{r},{c}] parameter(2)
  ROOT r = {t}[{n},{c}] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}"""
)

_CUMSUM = (
    _ADD
    + """ENTRY e {{
  x = {t}[{r},{c}] parameter(0)
  zero = {t}[] constant(0)
  ROOT r = {t}[{r},{c}] reduce-window(x, zero), window={{size=1x{c} pad=0_0x{p}_0}}, to_apply=add
}}"""
)

_SORT = """less {{
  a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}}
ENTRY e {{
  x = {t}[{r},{c}] parameter(0)
  ROOT r = {t}[{r},{c}] sort(x), dimensions={{1}}, to_apply=less
}}"""

_PRODUCT = """ENTRY e {{
  x = {t}[{m},{k}] parameter(0)
  y = {t}[{k},{n}] parameter(1)
  b = {t}[{n}] parameter(2)
  p = {t}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  bb = {t}[{m},{n}] broadcast(b), dimensions={{1}}
  s = {t}[{m},{n}] add(p, bb)
  ROOT r = {t}[{m},{n}] tanh(s)
}}"""

_CONVOLUTION = """ENTRY e {{
  x = {t}[{b},{h},{h},{i}] parameter(0)
  w = {t}[3,3,{i},{o}] parameter(1)
  ROOT r = {t}[{b},{h},{h},{o}] convolution(x, w), window={{size=3x3 pad=1_1x1_1}},
    dim_labels=b01f_01io->b01f
}}"""

# Scores are f32, as nn.dot_product_attention has them; `{x}` is what the softmax is taken of.
_WEIGHTS = """ENTRY e {{
  q = {t}[{b},{l},{d}] parameter(0)
  k = {t}[{b},{l},{d}] parameter(1)
  v = {t}[{b},{l},{d}] parameter(2)
  zero = f32[] constant(0)
  least = f32[] constant(-inf)
  scale = f32[] constant(0.125)
  x0 = f32[{b},{l},{l}] dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  scales = f32[{b},{l},{l}] broadcast(scale), dimensions={{}}
  x = f32[{b},{l},{l}] multiply(x0, scales)
  i = s32[{l},{l}] iota(), iota_dimension=0
  j = s32[{l},{l}] iota(), iota_dimension=1
  seen0 = pred[{l},{l}] compare(i, j), direction=GE
  seen = pred[{b},{l},{l}] broadcast(seen0), dimensions={{1,2}}
  low = f32[] constant(-1e38)
  lows = f32[{b},{l},{l}] broadcast(low), dimensions={{}}
  masked = f32[{b},{l},{l}] select(seen, x, lows)
  m = f32[{b},{l}] reduce({x}, least), dimensions={{2}}, to_apply=max
  mb = f32[{b},{l},{l}] broadcast(m), dimensions={{0,1}}
  e0 = f32[{b},{l},{l}] subtract({x}, mb)
  e = f32[{b},{l},{l}] exponential(e0)
  s = f32[{b},{l}] reduce(e, zero), dimensions={{2}}, to_apply=add
  sb = f32[{b},{l},{l}] broadcast(s), dimensions={{0,1}}
  w0 = f32[{b},{l},{l}] divide(e, sb)
  w = {t}[{b},{l},{l}] convert(w0)
  r = {t}[{b},{l},{d}] dot(w, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
"""
# With `g`, the gradient of the result.
_GRADIENT = """
  g = {t}[{b},{l},{d}] parameter(3)
  gw0 = {t}[{b},{l},{l}] dot(g, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  gw = f32[{b},{l},{l}] convert(gw0)
  gs0 = f32[{b},{l},{l}] multiply(gw, w0)
  gs1 = f32[{b},{l}] reduce(gs0, zero), dimensions={{2}}, to_apply=add
  gs = f32[{b},{l},{l}] broadcast(gs1), dimensions={{0,1}}
  gx0 = f32[{b},{l},{l}] subtract(gw, gs)
  gx1 = f32[{b},{l},{l}] multiply(gx0, w0)
  zeros = f32[{b},{l},{l}] broadcast(zero), dimensions={{}}
  gmasked = f32[{b},{l},{l}] select(seen, gx1, zeros)
  gx2 = f32[{b},{l},{l}] multiply({gx}, scales)
  gx = {t}[{b},{l},{l}] convert(gx2)
  dq = {t}[{b},{l},{d}] dot(gx, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
  dk = {t}[{b},{l},{d}] dot(gx, q), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  dv = {t}[{b},{l},{d}] dot(w, g), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  ROOT t = ({t}[{b},{l},{d}], {t}[{b},{l},{d}], {t}[{b},{l},{d}], {t}[{b},{l},{d}])
    tuple(r, dq, dk, dv)
"""


def _square(text: str) -> tuple[str, dict[str, int], dict[str, int]]:
    return text, {"r": 96, "c": 160}, {"r": 8192, "c": 8192}


def _product_flops(s: dict[str, int]) -> float:
    return 2.0 * s["m"] * s["n"] * s["k"]


def _product(name: str, element_type: str, n: int, small: int = 64) -> Family:
    return _family(
        name,
        f"tanh(x @ y + b), {element_type}, {n}³",
        _PRODUCT,
        {"m": small + 32, "n": small, "k": small},
        {"m": n, "n": n, "k": n},
        element_type=element_type,
        flops=_product_flops,
    )


def _attention(name: str, *, causal: bool = False, gradient: bool = False) -> Family:
    """Attention, with the gradient of all its arguments or without."""
    names = ("masked", "gmasked") if causal else ("x", "gx1")
    text = _WEIGHTS + _GRADIENT if gradient else _WEIGHTS.replace("  r =", "  ROOT r =")
    reducers = (_ADD + _MAX).replace("{t}", "f32")
    products = 7.0 if gradient else 2.0
    return _family(
        name,
        "bf16[64,2048,64]",
        reducers + text.replace("{x}", names[0]).replace("{gx}", names[1]) + "}}",
        {"b": 2, "l": 128, "d": 32},
        {"b": 64, "l": 2048, "d": 64},
        element_type="bf16",
        flops=lambda s: products / (2 if causal else 1) * 2 * s["b"] * s["l"] ** 2 * s["d"],
    )


FAMILIES = (
    _family("elementwise", "exp(x) * y + x, f32[8192,8192]", *_square(_ELEMENTWISE)),
    _family("transpose", "x.T, f32[8192,8192]", *_square(_TRANSPOSE)),
    _family("row reduction", "x.sum(1), f32[8192,8192]", *_square(_ROWS)),
    _family("column reduction", "x.sum(0), f32[8192,8192]", *_square(_COLUMNS)),
    _family("full reduction", "x.sum(), f32[8192,8192]", *_square(_ALL)),
    _family("softmax", "of rows, f32[8192,8192]", *_square(_SOFTMAX)),
    _family("layer norm", "of rows, f32[8192,8192]", *_square(_LAYER_NORM)),
    _family(
        "gather",
        "rows, f32[65536,1024] by 65536 indices",
        _GATHER,
        {"n": 96, "r": 64, "c": 64},
        {"n": 65536, "r": 65536, "c": 1024},
        integers=96,
    ),
    _family(
        "scatter",
        "add rows, f32[65536,1024] by 65536 indices",
        _SCATTER,
        {"n": 96, "r": 64, "c": 64},
        {"n": 65536, "r": 65536, "c": 1024},
        integers=96,
    ),
    _family(
        "cumsum",
        "of rows, f32[8192,8192]",
        _CUMSUM,
        {"r": 8, "c": 640, "p": 639},
        {"r": 8192, "c": 8192, "p": 8191},
    ),
    _family(
        "long cumsum",
        "of one row, f32[67108864]",
        _CUMSUM,
        {"r": 1, "c": 6000, "p": 5999},
        {"r": 1, "c": 1 << 26, "p": (1 << 26) - 1},
    ),
    _family("sort", "of rows, f32[65536,1024]", _SORT, {"r": 4, "c": 256}, {"r": 65536, "c": 1024}),
    _product("product f32", "f32", 1024),
    _product("product bf16", "bf16", 1024),
    _product("large product", "bf16", 4096),
    _family(
        "convolution",
        "3×3, bf16[32,56,56,128] to 128",
        _CONVOLUTION,
        {"b": 1, "h": 8, "i": 16, "o": 16},
        {"b": 32, "h": 56, "i": 128, "o": 128},
        element_type="bf16",
        flops=lambda s: 2.0 * 9 * s["b"] * s["h"] ** 2 * s["i"] * s["o"],
    ),
    _attention("attention"),
    _attention("attention, its gradient", gradient=True),
    _attention("causal attention", causal=True),
    _attention("causal attention, its gradient", causal=True, gradient=True),
)
