"""Operations with an effect beyond their results: the state of the random number generator."""

from __future__ import annotations

from xla_backend.cpu.driver import Driver, runs
from xla_backend.hlo.attributes import RngGetAndUpdateStateAttributes
from xla_backend.hlo.evaluator.interpreter import RNG_INITIAL_STATE
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode

_STATE = "pyjax_rng_state"


@runs(Opcode.RNG_GET_AND_UPDATE_STATE)
def _rng_get_and_update_state(driver: Driver, node: Instruction) -> None:
    """The state is one word of the program, kept between executions; the high word stays 0 (a
    stream of 2^64 blocks does not end)."""
    assert isinstance(node.attributes, RngGetAndUpdateStateAttributes)
    if not driver.uses_rng_state:
        driver.uses_rng_state = True
        driver.writer.add(f"@{_STATE} = internal global i64 {RNG_INITIAL_STATE}")
    w = driver.w
    old = w.value(f"atomicrmw add ptr @{_STATE}, i64 {node.attributes.delta} monotonic")
    target = driver.address(node)
    w.store("i64", old, target)
    w.store("i64", "0", w.gep("i64", target, 1))
