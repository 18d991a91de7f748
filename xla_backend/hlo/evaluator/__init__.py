"""NumPy evaluator of HLO: slow, plain, and the meaning every pass and code generator is compared
with."""

from xla_backend.hlo.evaluator.interpreter import (
    evaluate,
    evaluate_computation,
    flatten_value,
    unflatten_value,
)

__all__ = ["evaluate", "evaluate_computation", "flatten_value", "unflatten_value"]
