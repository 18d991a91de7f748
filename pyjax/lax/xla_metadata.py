"""Values whose operation carries attributes for the compiler. See `core/xla_attributes.py`."""

from __future__ import annotations

from typing import Any

from pyjax.core.primitive import Primitive
from pyjax.core.xla_attributes import Attributes, attribute_text
from pyjax.interpreters.hlo import LoweringContext, attach_attributes
from pyjax.interpreters.rules import LINEAR
from pyjax.lax.nary import define, elementwise_batching
from xla_backend.hlo.instruction import Instruction


def _lowering(ctx: LoweringContext, x: Instruction, *, xla_metadata_kvs: Attributes) -> Instruction:
    attach_attributes(x, xla_metadata_kvs)
    return x


xla_metadata_value_p: Primitive = define(
    "xla_metadata_value",
    abstract_eval=lambda x, *, xla_metadata_kvs: [x],
    jvp=LINEAR,
    transpose=lambda cts, x, *, xla_metadata_kvs: cts,
    batching=elementwise_batching,
    lowering=_lowering,
)


def with_metadata(x: Any, values: dict[str, Any]) -> Any:
    """`x`; the operation that computes it has these attributes."""
    attributes = tuple(sorted((name, attribute_text(value)) for name, value in values.items()))
    return xla_metadata_value_p.bind1(x, xla_metadata_kvs=attributes)
