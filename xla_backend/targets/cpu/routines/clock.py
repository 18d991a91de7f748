"""Clocks of run-time code."""

from __future__ import annotations

from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

# CLOCK_MONOTONIC
_LINUX, _ELSEWHERE = 1, 6


def read_clock(w: FunctionWriter, number: int) -> str:
    """Nanoseconds of one of the system's clocks."""
    time = w.alloca("i64", 2, 8)
    w.call("clock_gettime", "i32", [("i32", str(number)), ("ptr", time)])
    seconds = w.imul(w.load("i64", time), 1_000_000_000)
    return w.iadd(seconds, w.load("i64", w.gep("i64", time, 1)))


def emit_clock(module: ModuleWriter, linux: bool) -> None:
    """Adds i64 pyjax.now() to a module: nanoseconds of the monotonic clock."""
    w = module.function("pyjax.now", [], "i64", internal=True)
    w.ret("i64", read_clock(w, _LINUX if linux else _ELSEWHERE))
