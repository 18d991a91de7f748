"""Prints kernels the way one would write them in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import QUOTIENTS, FloorDiv, Index
from xla_backend.kernels.ir import (
    HANDOVERS,
    AsyncCopy,
    AsyncGroup,
    AsyncWait,
    Atomic,
    Await,
    AwaitArrivals,
    Barrier,
    BoxCopy,
    BufferRole,
    Carry,
    Combination,
    Compute,
    Constant,
    Contraction,
    ExpectBytes,
    GroupProduct,
    GroupWait,
    If,
    IndexValue,
    InRange,
    Kernel,
    Lines,
    Load,
    Loop,
    MatrixLoad,
    MatrixTile,
    Move,
    PrepareArrivals,
    Shuffle,
    Signal,
    Statement,
    Store,
    Ticket,
    Transpose,
    Value,
)

_INFIX = {
    Opcode.ADD: "+",
    Opcode.SUBTRACT: "-",
    Opcode.MULTIPLY: "*",
    Opcode.DIVIDE: "/",
    Opcode.REMAINDER: "%",
    Opcode.AND: "&",
    Opcode.OR: "|",
    Opcode.XOR: "^",
    Opcode.SHIFT_LEFT: "<<",
    Opcode.SHIFT_RIGHT_ARITHMETIC: ">>",
}
_COMPARE = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}
_NAMES = {
    Opcode.EXPONENTIAL: "exp",
    Opcode.LOG_PLUS_ONE: "log1p",
    Opcode.EXPONENTIAL_MINUS_ONE: "expm1",
}


def kernel_to_text(kernel: Kernel) -> str:
    """The whole kernel as text; constants are written where they are used."""
    return _Printer(kernel).text()


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.next = 0

    def text(self) -> str:
        kernel = self.kernel
        parameters = []
        for buffer in kernel.buffers:
            role = (
                ""
                if buffer.role in (BufferRole.OPERAND, BufferRole.OUTPUT)
                else f" {buffer.role.value}"
            )
            size = buffer.size if buffer.count is None else self._index(buffer.count)
            parameters.append(f"{buffer.name}:{role} {buffer.element_type}[{size}]")
        for parameter in kernel.parameters:
            low, high = parameter.bounds
            unit = f" by {parameter.unit}" if parameter.unit > 1 else ""
            parameters.append(f"{parameter.name}: {low}..{high}{unit}")
        self.lines.append(f"def {kernel.name}({', '.join(parameters)}):")
        for output, operand in kernel.in_place.items():
            self.lines.append(
                f"    out{output}[:] = p{operand}  # in place where they share memory"
            )
        self._block(kernel.stages, 1)
        return "\n".join(self.lines) + "\n"

    def _name(self, value: Value) -> str:
        name = self.names.get(value)
        if name is None:
            name = f"v{self.next}"
            self.next += 1
            self.names[value] = name
        return name

    def _index(self, index: Index) -> str:
        parts: list[str] = []
        for atom, c in sorted(index.terms.items(), key=lambda term: term[0].depth):
            text = self._atom(atom)
            if abs(c) != 1:
                text = f"{abs(c)}*{text}"
            if parts:
                parts.append((" + " if c > 0 else " - ") + text)
            else:
                parts.append(text if c > 0 else f"-{text}")
        if index.constant or not parts:
            if not parts:
                return str(index.constant)
            parts.append(f" {'+' if index.constant > 0 else '-'} {abs(index.constant)}")
        return "".join(parts)

    def _atom(self, atom: Any) -> str:
        if isinstance(atom, Value):
            return self._name(atom)
        if isinstance(atom, QUOTIENTS):
            sign = "//" if isinstance(atom, FloorDiv) else "%"
            inner = self._index(atom.index)
            if " " in inner:
                inner = f"({inner})"
            return f"({inner} {sign} {atom.divisor})"
        return atom.name

    def _block(self, statements: list[Statement], depth: int) -> None:
        for statement in statements:
            self._statement(statement, depth)

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _statement(self, s: Statement, depth: int) -> None:
        if isinstance(s, Constant):
            self.names[s.result] = _constant_text(s.value)
        elif isinstance(s, Load):
            guard = f" if {self._name(s.guard)} else 0" if s.guard else ""
            where = f"{s.buffer.name}[{self._index(s.index)}]"
            self._line(depth, f"{self._name(s.result)} = {where}{guard}")
        elif isinstance(s, Store):
            values = ", ".join(self._name(v) for v in s.values)
            where = self._index(s.index)
            if len(s.values) > 1:
                where = f"{where} : {self._index(s.index + len(s.values))}"
            prefix = f"if {self._name(s.guard)}: " if s.guard else ""
            self._line(depth, f"{prefix}{s.buffer.name}[{where}] = {values}")
        elif isinstance(s, Compute):
            self._line(depth, f"{self._name(s.result)} = {self._expression(s)}")
        elif isinstance(s, IndexValue):
            self._line(depth, f"{self._name(s.result)} = {s.result.type}({self._index(s.index)})")
        elif isinstance(s, InRange):
            text = f"{s.low} <= {self._index(s.index)} < {s.high}"
            self._line(depth, f"{self._name(s.result)} = {text}")
        elif isinstance(s, Move):
            source = f"{s.buffer.name}[{self._index(s.index)}]"
            self._line(depth, f"{s.target.name}[{self._index(s.target_index)}] = {source}")
        elif isinstance(s, Transpose):
            shape = f"{s.size}, {s.size}"
            self._line(depth, f"{s.target.name}[:] = {s.source.name}.reshape({shape}).T")
        elif isinstance(s, Barrier):
            self._line(depth, "barrier()")
        elif isinstance(s, HANDOVERS):
            self._line(depth, self._handover(s))
        elif isinstance(s, Atomic):
            prefix = f"if {self._name(s.guard)}: " if s.guard else ""
            name, at = s.opcode.value, self._index(s.index)
            self._line(
                depth, f"{prefix}atomic_{name}({s.buffer.name}[{at}], {self._name(s.value)})"
            )
        elif isinstance(s, Shuffle):
            how = f"shuffle_{s.mode.value}({self._name(s.value)}, {s.number}, {s.width})"
            self._line(depth, f"{self._name(s.result)} = {how}")
        elif isinstance(s, MatrixTile):
            results, lhs, rhs, sums = (
                f"[{', '.join(self._name(v) for v in part)}]"
                for part in (s.results, s.lhs, s.rhs, s.sums)
            )
            shape = "x".join(map(str, s.shape))
            self._line(depth, f"{results} = matrix_tile({shape}, {lhs}, {rhs}, {sums})")
        elif isinstance(s, MatrixLoad):
            results = f"[{', '.join(self._name(v) for v in s.results)}]"
            turned = ".T" if s.transposed else ""
            rows = f"{s.buffer.name}[{self._index(s.index)}...]"
            self._line(depth, f"{results} = matrix_load({rows}){turned}")
        elif isinstance(s, AsyncCopy | AsyncGroup | AsyncWait):
            self._line(depth, self._async(s))
        elif isinstance(s, PrepareArrivals | ExpectBytes | BoxCopy | AwaitArrivals):
            self._line(depth, self._arriving(s))
        elif isinstance(s, GroupProduct):
            shape = "x".join(map(str, s.shape))
            lhs, rhs = self._lines_of(s.lhs), self._lines_of(s.rhs)
            results, sums = self._several(s.results), self._several(s.sums)
            self._line(depth, f"{results} = group_product({shape}, {lhs}, {rhs}, {sums})")
        elif isinstance(s, GroupWait):
            values = self._several(s.values)
            wait = f"group_wait({values}, pending={s.pending})"
            self._line(depth, f"{self._several(s.results)} = {wait}")
        elif isinstance(s, If):
            self._if(s, depth)
        elif isinstance(s, Loop):
            self._loop(s, depth)

    def _several(self, values: Sequence[Value]) -> str:
        """Values that are numbered one after another: the first and the last."""
        names = [self._name(v) for v in values]
        return f"[{names[0]}, ..., {names[-1]}]"

    def _lines_of(self, lines: Lines) -> str:
        apart = f"stride={lines.stride}"
        if not lines.inner_first:
            apart = f"outer, leading={lines.leading}, {apart}"
        return f"{lines.buffer.name}[{self._index(lines.index)}...; {apart}]"

    def _arriving(self, s: PrepareArrivals | ExpectBytes | BoxCopy | AwaitArrivals) -> str:
        if isinstance(s, PrepareArrivals):
            return f"prepare({s.arrivals.name})"
        if isinstance(s, ExpectBytes):
            return f"expect_bytes({s.arrivals.name}[{self._index(s.index)}], {s.count})"
        if isinstance(s, AwaitArrivals):
            place = f"{s.arrivals.name}[{self._index(s.index)}]"
            return f"await_arrivals({place}, parity={self._index(s.parity)})"
        at = ", ".join(self._index(i) for i in s.at)
        rounded = ", tf32" if s.array.rounded else ""
        box = f"{s.array.box[0]}x{s.array.box[1]}{rounded}"
        arrival = f"{s.arrivals.name}[{self._index(s.arrival)}]"
        target = f"{s.target.name}[{self._index(s.target_index)}...]"
        return f"{target} = box_copy({box}, {s.buffer.name}[at {at}], {arrival})"

    def _handover(self, s: Ticket | Signal | Await) -> str:
        place = f"{s.buffer.name}[{self._index(s.index)}]"
        if isinstance(s, Ticket):
            return f"{self._name(s.result)} = ticket({place})"
        prefix = f"if {self._name(s.guard)}: " if s.guard else ""
        return f"{prefix}{'signal' if isinstance(s, Signal) else 'await'}({place})"

    def _async(self, s: AsyncCopy | AsyncGroup | AsyncWait) -> str:
        if isinstance(s, AsyncGroup):
            return "async_group()"
        if isinstance(s, AsyncWait):
            return f"async_wait(pending={s.pending})"
        target, source = (
            f"{buffer.name}[{self._index(at)} : {self._index(at + s.count)}]"
            for buffer, at in ((s.target, s.target_index), (s.buffer, s.index))
        )
        guard = f" if {self._name(s.guard)} else 0" if s.guard else ""
        return f"{target} = async_copy({source}{guard})"

    def _expression(self, s: Compute) -> str:
        names = [self._name(o) for o in s.operands]
        if s.opcode in _INFIX and len(names) == 2:
            how = "~" if isinstance(s.attributes, Contraction) else ""
            return f"{names[0]} {how}{_INFIX[s.opcode]} {names[1]}"
        if s.opcode is Opcode.COMPARE:
            order = ", total order" if s.attributes.total_order else ""
            return f"{names[0]} {_COMPARE[s.attributes.direction.value]} {names[1]}{order}"
        if s.opcode is Opcode.NEGATE:
            return f"-{names[0]}"
        if s.opcode is Opcode.NOT:
            return f"~{names[0]}"
        if s.opcode is Opcode.SELECT:
            return f"{names[1]} if {names[0]} else {names[2]}"
        if s.opcode in (Opcode.CONVERT, Opcode.BITCAST_CONVERT):
            how = "" if s.opcode is Opcode.CONVERT else ".from_bits"
            return f"{s.result.type}{how}({names[0]})"
        name = _NAMES.get(s.opcode) or s.opcode.value.replace("-", "_")
        extra = []
        if s.opcode is Opcode.REDUCE_PRECISION:
            extra = [f"e{s.attributes.exponent_bits}m{s.attributes.mantissa_bits}"]
        return f"{name}({', '.join(names + extra)})"

    def _if(self, s: If, depth: int) -> None:
        self._begin_carries(s.carries, depth)
        low, high = s.index.bounds
        parts = [f"{s.low} <= "] if low < s.low else []
        parts.append(self._index(s.index))
        if high >= s.high:
            parts.append(f" < {s.high}")
        self._line(depth, f"if {''.join(parts)}:")
        self._body(s.body, s.carries, depth + 1)

    def _loop(self, loop: Loop, depth: int) -> None:
        self._begin_carries(loop.carries, depth)
        rounds = [self._index(limit) for limit in loop.limits]
        if not all(l.bounds[1] <= loop.var.extent for l in loop.limits) or not rounds:
            rounds.insert(0, str(loop.var.extent))
        count = rounds[0] if len(rounds) == 1 else f"min({', '.join(rounds)})"
        self._line(depth, f"for {loop.var.name} in {loop.kind.value}({count}):")
        self._body(loop.body, loop.carries, depth + 1)
        if loop.combination is not None:
            self._combination(loop.combination, depth)

    def _begin_carries(self, carries: list[Carry], depth: int) -> None:
        for carry in carries:
            # One name for the whole life of a carried value, as an accumulator variable has.
            name = f"acc{self.next}"
            self.next += 1
            if carry.init in self.names and self.names[carry.init].startswith("acc"):
                name = self.names[carry.init]
            else:
                self._line(depth, f"{name} = {self._name(carry.init)}")
            self.names[carry.phi] = name
            self.names[carry.result] = name

    def _body(self, body: list[Statement], carries: list[Carry], depth: int) -> None:
        self._block(body, depth)
        updates = [(self.names[c.phi], self._name(c.next)) for c in carries if c.next is not None]
        updates = [(name, value) for name, value in updates if name != value]
        if updates:
            left = ", ".join(name for name, _ in updates)
            self._line(depth, f"{left} = {', '.join(value for _, value in updates)}")
        elif not body:
            self._line(depth, "pass")

    def _combination(self, c: Combination, depth: int) -> None:
        lhs = ", ".join(self._name(v) for v in c.combiner.lhs)
        rhs = ", ".join(self._name(v) for v in c.combiner.rhs)
        self._line(depth, f"def combine({lhs}, {rhs}):")
        self._block(c.combiner.body, depth + 1)
        results = ", ".join(self._name(v) for v in c.combiner.results)
        self._line(depth + 1, f"return {results}")
        values = ", ".join(self._name(v) for v in c.values)
        start = "".join(f", {self._name(v)}" for v in c.inits)
        targets = ", ".join(self._name(v) for v in c.results)
        how = "combine_lanes" if c.combiner.commutes else "combine_neighbours"
        self._line(depth, f"{targets} = {how}(combine, {values}{start})")


def _constant_text(value: Any) -> str:
    text = str(value)
    return text if not text.startswith("-") else f"({text})"
