"""The activations of `nn`."""

from __future__ import annotations

from typing import Any

from tests.accuracy.measure import mp
from tests.accuracy.operands import between, reals
from tests.accuracy.rows import Row

_ALPHA = mp.mpf("1.6732632423543772848170429916717")
_SCALE = mp.mpf("1.0507009873554804934193349852946")


def _softplus(x: Any) -> Any:
    return x + mp.log1p(mp.exp(-x)) if x > 0 else mp.log1p(mp.exp(max(x, mp.mpf(-5000))))


def _log1mexp(x: Any) -> Any:
    if x == 0:
        return mp.ninf
    return mp.log(-mp.expm1(-x)) if x < 1 else mp.log1p(-mp.exp(-x))


def _squareplus(x: Any) -> Any:
    root = mp.sqrt(x * x + 4)
    return (x + root) / 2 if x > 0 else 2 / (root - x)


def _elu(x: Any) -> Any:
    return x if x > 0 else mp.expm1(x)


def _gelu(x: Any) -> Any:
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def _gelu_by_tanh(x: Any) -> Any:
    u = mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)
    return x * mp.sigmoid(2 * u)


ROWS = (
    Row("nn.celu", _elu, between(-200, 1e6)),
    Row(
        "nn.celu",
        lambda x: x if x > 0 else 3 * mp.expm1(x / 3),
        between(-200, 1e6),
        call="f(x, 3.0)",
    ),
    Row("nn.elu", _elu, between(-200, 1e6)),
    Row("nn.selu", lambda x: _SCALE * (x if x > 0 else _ALPHA * mp.expm1(x)), between(-200, 1e6)),
    Row(
        "nn.gelu",
        _gelu_by_tanh,
        between(-20, 20),
        call="f(x, approximate=True)",
        scale=lambda x: x,
        note="within 4 units in the last place of x",
    ),
    Row(
        "nn.gelu",
        _gelu,
        between(-20, 20),
        call="f(x, approximate=False)",
        scale=lambda x: x,
        note="within 4 units in the last place of x",
    ),
    Row("nn.log1mexp", _log1mexp, between(0, 100)),
    Row("nn.softplus", _softplus, between(-800, 800)),
    Row("nn.log_sigmoid", lambda x: -_softplus(-x), between(-800, 800)),
    Row("nn.mish", lambda x: x * mp.tanh(_softplus(x)), between(-80, 1000)),
    Row("nn.silu nn.swish", lambda x: x * mp.sigmoid(x), between(-80, 1e6)),
    Row("nn.soft_sign", lambda x: x / (1 + abs(x)), reals),
    Row("nn.squareplus", _squareplus, between(-1e18, 1e18)),
    Row("nn.sparse_plus", lambda x: max(x, 0) if abs(x) >= 1 else (x + 1) ** 2 / 4, reals),
    Row("nn.sparse_sigmoid", lambda x: min(max(x + 1, 0), 2) / 2, reals),
    Row("nn.hard_sigmoid", lambda x: min(max(x + 3, 0), 6) / 6, reals),
    Row("nn.hard_silu nn.hard_swish", lambda x: x * min(max(x + 3, 0), 6) / 6, reals),
    Row("nn.leaky_relu", lambda x: x if x > 0 else x * mp.mpf("0.01"), reals),
)
