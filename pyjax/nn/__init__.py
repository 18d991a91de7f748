"""Functions for neural networks: activations, the softmax family, attention, initializers."""

from typing import Any as _Any

from pyjax.nn.functions import (
    celu,
    dot_product_attention,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    log_softmax,
    logmeanexp,
    logsumexp,
    mish,
    one_hot,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softmax,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    standardize,
    swish,
    tanh,
)
from pyjax.nn.scaled import get_scaled_dot_general_config, scaled_dot_general, scaled_matmul
from xla_backend.process.on_first_use import import_now as _import_now

# Loaded on first use: initializers need random numbers, the other functions do not.
_ON_DEMAND = frozenset({"initializers"})


def __getattr__(name: str) -> _Any:
    if name in _ON_DEMAND:
        return _import_now(f"pyjax.nn.{name}")
    raise AttributeError(f"module 'pyjax.nn' has no attribute {name!r}")
