"""NumPy evaluator of HLO: slow, plain, and the meaning every pass and code generator is compared
with."""

from xla_backend.hlo.evaluator.interpreter import evaluate, evaluate_computation
from xla_backend.hlo.evaluator.partitioned import evaluate_partitioned
from xla_backend.hlo.evaluator.transfers import Host
from xla_backend.hlo.evaluator.values import flatten_value, unflatten_value

__all__ = [
    "Host",
    "evaluate",
    "evaluate_computation",
    "evaluate_partitioned",
    "flatten_value",
    "unflatten_value",
]
