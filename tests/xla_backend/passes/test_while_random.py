"""Random loops through the whole pipeline: carries rotated, reversed, stacked, summed, nested."""

import random

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.passes import (
    while_dead_initial_value,
    while_dot_accumulation,
    while_double_buffering,
)
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.arena_interpreter import ArenaInterpreter

CARRIES = 4
ROWS = 6
ARRAY = f"f32[{ROWS},8]"
STATE = f"(s32[], {', '.join([ARRAY] * CARRIES)})"


class LoopWriter:
    """HLO text of a program with one loop, which may hold another."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.computations: list[str] = []

    def program(self) -> str:
        loop = self.loop(depth=self.random.choice([0, 0, 1]))
        lines = [f"p{i} = {ARRAY} parameter({i})" for i in range(CARRIES)]
        lines += ["z = f32[] constant(0)", f"zeros = {ARRAY} broadcast(z), dimensions={{}}"]
        starts = [self.random.choice([f"p{i}", "p0", "zeros"]) for i in range(CARRIES)]
        starts[3] = self.random.choice(["zeros", "p3"])
        lines += ["zero = s32[] constant(0)", f"t = {STATE} tuple(zero, {', '.join(starts)})"]
        lines.append(f"l = {STATE} while(t), {loop}")
        results = sorted(self.random.sample(range(CARRIES), self.random.randint(1, CARRIES)))
        for i in results:
            lines.append(f"r{i} = {ARRAY} get-tuple-element(l), index={i + 1}")
        shape = ", ".join([ARRAY] * len(results))
        names = ", ".join(f"r{i}" for i in results)
        lines.append(f"ROOT r = ({shape}) tuple({names})")
        entry = "ENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"
        return "HloModule m\n\n" + "\n".join(self.computations) + entry

    def loop(self, depth: int) -> str:
        number = len(self.computations)
        trips = self.random.choice([2, 3, 4, ROWS, ROWS, 9])
        direction = self.random.choice(["LT", "LT", "LT", "NE"])
        head = [f"t = {STATE} parameter(0)", "i = s32[] get-tuple-element(t), index=0"]
        condition = [
            *head,
            f"n = s32[] constant({trips})",
            f"ROOT c = pred[] compare(i, n), direction={direction}",
        ]
        self.write(f"cond{number}", condition)
        lines = [*head, "one = s32[] constant(1)", "next = s32[] add(i, one)"]
        lines += [
            "zero = s32[] constant(0)",
            f"last = s32[] constant({trips - 1})",
            "back = s32[] subtract(last, i)",
        ]
        values = []
        # The last carries may serve as a stack and as a sum only.
        stacks, sums = self.random.random() < 0.4, self.random.random() < 0.4
        for c in range(CARRIES):
            if not ((c == 3 and stacks) or (c == 2 and sums)):
                values.append(f"c{c}")
            lines.append(f"c{c} = {ARRAY} get-tuple-element(t), index={c + 1}")
        if depth:
            inner = self.loop(depth - 1)
            order = ", ".join(self.random.choice(values) for _ in range(CARRIES))
            lines += [f"it = {STATE} tuple(zero, {order})", f"il = {STATE} while(it), {inner}"]
            lines.append(f"v = {ARRAY} get-tuple-element(il), index={self.random.randint(1, 4)}")
            values.append("v")
        for k in range(self.random.randint(1, 6)):
            lines += self.operation(f"x{k}", values)
            values.append(f"x{k}")
        kept = values[-3:] + values[:2]
        new = [self.random.choice([f"c{c}", *kept]) for c in range(CARRIES)]
        a, b = self.random.choice(values), self.random.choice(values)
        row = self.random.choice(["i", "i", "back", "next"])
        if stacks:
            lines.append(f"yw = f32[1,8] slice({a}), slice={{[0:1], [0:8]}}")
            lines.append(f"y = {ARRAY} dynamic-update-slice(c3, yw, {row}, zero)")
            new[3] = "y"
        if sums:
            lines.append(f"sa = f32[2,{ROWS}] slice({a}), slice={{[0:2], [0:{ROWS}]}}")
            lines.append(f"sb = f32[2,8] slice({b}), slice={{[1:3], [0:8]}}")
            numbers = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
            lines.append(f"sd = {ARRAY} dot(sa, sb), {numbers}")
            lines.append(f"sum = {ARRAY} add(c2, sd)")
            new[2] = "sum"
        lines.append(f"ROOT r = {STATE} tuple(next, {', '.join(new)})")
        self.write(f"body{number}", lines)
        return f"condition=cond{number}, body=body{number}"

    def operation(self, name: str, values: list[str]) -> list[str]:
        a, b = self.random.choice(values), self.random.choice(values)
        kind = self.random.choice(["reverse", "tanh", "average", "row", "stack", "dot"])
        row = self.random.choice(["i", "back", "next", "zero"])
        window = f"{name}w = f32[1,8] dynamic-slice({a}, {row}, zero), dynamic_slice_sizes={{1,8}}"
        if kind == "reverse":
            return [f"{name} = {ARRAY} reverse({a}), dimensions={{1}}"]
        if kind == "tanh":
            return [f"{name} = {ARRAY} tanh({a})"]
        if kind == "average":
            return [f"{name}s = {ARRAY} add({a}, {b})", f"{name} = {ARRAY} sine({name}s)"]
        if kind == "dot":
            numbers = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
            back = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            return [
                f"{name}d = f32[8,8] dot({a}, {b}), {numbers}",
                f"{name}e = {ARRAY} dot({a}, {name}d), {back}",
                f"{name} = {ARRAY} tanh({name}e)",
            ]
        if kind == "row":
            return [
                window,
                f"{name}f = f32[8] reshape({name}w)",
                f"{name} = {ARRAY} broadcast({name}f), dimensions={{1}}",
            ]
        return [
            window,
            f"{name}x = f32[1,8] cosine({name}w)",
            f"{name} = {ARRAY} dynamic-update-slice({b}, {name}x, {row}, zero)",
        ]

    def write(self, name: str, lines: list[str]) -> None:
        self.computations.append(f"{name} {{\n  " + "\n  ".join(lines) + "\n}\n")


def check_loop(seed: int) -> None:
    text = LoopWriter(seed).program()
    module = parse_module(text)
    rng = np.random.default_rng(seed)
    arguments = [rng.standard_normal((ROWS, 8)).astype(np.float32) for _ in range(CARRIES)]
    expected = evaluate(module, arguments)
    build_pipeline(CompileOptions(verify=True)).run(module)
    got = ArenaInterpreter(module, assign_buffers(module), arguments).run()
    for e, g in zip(expected, got):
        np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-4)


SEEDS = [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 200))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loop(seed, monkeypatch):
    monkeypatch.setattr(while_double_buffering, "_MIN_COPY_BYTES", 0)
    monkeypatch.setattr(while_dead_initial_value, "_MIN_BYTES", 0)
    start = while_dot_accumulation.WhileDotAccumulation.__init__
    monkeypatch.setattr(start, "__defaults__", (0,))
    check_loop(seed)
