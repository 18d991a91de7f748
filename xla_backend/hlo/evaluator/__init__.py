"""NumPy evaluator of HLO: slow, plain, and the meaning every pass and code generator is compared
with."""

from xla_backend.hlo.evaluator.interpreter import (
    CustomCall,
    Interpreter,
    evaluate,
    evaluate_computation,
)
from xla_backend.hlo.evaluator.partitioned import evaluate_partitioned
from xla_backend.hlo.evaluator.values import flatten_value, unflatten_value
from xla_backend.hlo.host_queues import Host

__all__ = [
    "CustomCall",
    "Host",
    "Interpreter",
    "evaluate",
    "evaluate_computation",
    "evaluate_partitioned",
    "flatten_value",
    "unflatten_value",
]
