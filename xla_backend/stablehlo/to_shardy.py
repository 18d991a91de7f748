"""StableHLO with HLO's shardings -> the same in Shardy's words, as JAX prints programs of several
devices.

What lays arguments, results and values out names meshes at the top of the module, and calls around
bodies that see parts are `sdy.manual_computation`. Shardings that name no mesh (tiles of devices)
have no equal there and stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from xla_backend.hlo.device_lists import Mesh
from xla_backend.hlo.sharding import Sharding, parse_sharding
from xla_backend.hlo.text_position import quote
from xla_backend.stablehlo.attributes import (
    UNKNOWN_LOCATION,
    Attribute,
    DialectAttribute,
    IntegerAttribute,
    Location,
    SymbolAttribute,
)
from xla_backend.stablehlo.format_values import I64
from xla_backend.stablehlo.ir import Block, Operation, Region, Value
from xla_backend.stablehlo.module import Module
from xla_backend.stablehlo.types import TensorType

_HLO, _OWN = "mhlo.sharding", "sdy.sharding"
_CONSTRAINT, _TO_PARTS, _TO_WHOLE = "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"
_RESHAPE = "stablehlo.reshape"  # between a part of a sum and the body that sees its summand


def write_in_shardy(module: Module) -> None:
    """Change the shardings of a module; what calls see parts becomes part of the caller."""
    functions = module.functions
    if not any(map(_says_how, functions.values())):
        return
    _Conversion(module, functions).run(functions["main"])


def _says_how(function: Operation) -> bool:
    """Whether shardings are in a function."""
    arguments: Any = function.attributes.get("arg_attrs", ())
    inside = (_HLO in op.attributes for op in function.regions[0].walk())
    return any(_HLO in attributes for attributes in arguments) or any(inside)


class _Conversion:
    """That of one module."""

    def __init__(self, module: Module, functions: dict[str, Operation]) -> None:
        self._module = module
        self._functions = functions
        self._meshes: dict[Mesh, str] = {}
        self._taken = {
            op.attributes["sym_name"] for op in module.operations if op.name == "sdy.mesh"
        }
        self._done: set[str] = set()

    def run(self, main: Operation) -> None:
        self._arguments(main)
        self._function("main", frozenset())
        self._results(main)
        reached = self._reached(main)
        kept = [op for op in self._module.operations if op.name != "func.func" or op in reached]
        meshes = [_mesh_operation(name, mesh) for mesh, name in self._meshes.items()]
        self._module.operations[:] = [*meshes, *kept]

    def _reached(self, main: Operation) -> set[Operation]:
        """The functions that a program has use for."""
        found, pending = {main}, [main]
        while pending:
            for op in pending.pop().regions[0].walk():
                for name in _symbols(tuple(op.attributes.values())):
                    function = self._functions.get(name)
                    if function is not None and function not in found:
                        found.add(function)
                        pending.append(function)
        return found

    # -- functions, blocks, operations -------------------------------------------------------------

    def _function(self, name: str, manual: frozenset[str]) -> None:
        if name not in self._done:
            self._done.add(name)
            self._block(self._functions[name].regions[0].block, manual)

    def _block(self, block: Block, manual: frozenset[str]) -> None:
        """`manual`: axes along which the block sees parts."""
        self._bodies(block, manual)
        for number, op in enumerate(block.operations):
            if op.name == "sdy.manual_computation":
                continue
            block.operations[number] = self._operation(op, manual)
            block.operations[number].parent = block
            for region in op.regions:
                for inner in region.blocks:
                    self._block(inner, manual)
            name = _callee(op)
            if name is not None:
                self._function(name, manual)

    def _operation(self, op: Operation, manual: frozenset[str]) -> Operation:
        """The operation, changed, or another in its place."""
        said = _sharding_of(op)
        if said is None:
            return op
        if op.name == "stablehlo.custom_call" and _target(op) in (_TO_PARTS, _TO_WHOLE):
            return op  # of no body that is known here
        if _is_constraint(op):
            text = self._text(said, op.result)
            if text is not None:
                op.name = "sdy.sharding_constraint"
                op.attributes = {"sharding": DialectAttribute(_OWN, text)}
            return op
        if manual and (said.kind == "manual" or said.manual_axes):
            del op.attributes[_HLO]
            if op.name == "stablehlo.partition_id" and said.mesh is not None:
                return self._by_each_device(op, said.mesh, manual)
            return op
        leaves = said.elements if said.kind == "tuple" else (said,)
        texts = [self._text(leaf, value) for leaf, value in zip(leaves, op.results)]
        if texts and len(texts) == len(op.results) and None not in texts:
            del op.attributes[_HLO]
            body = ", ".join(f"<{text}>" for text in texts)
            op.attributes[_OWN] = DialectAttribute("sdy.sharding_per_value", f"[{body}]")
        return op

    def _by_each_device(self, op: Operation, mesh: Mesh, manual: frozenset[str]) -> Operation:
        """Devices have numbers where all that they do is said only."""
        inner = Operation(op.name, (), op.result_types, op.attributes, (), op.location)
        region = Region([Block()])
        region.block.append(inner)
        region.block.append(Operation("sdy.return", inner.results, location=op.location))
        rest = [name for name, _ in mesh.axes if name not in manual]
        attributes = self._manual_attributes([], [f"@{self._mesh(mesh)}, []"], rest)
        return _manual_computation([], op.results, attributes, region, op.location)

    # -- bodies that see parts ---------------------------------------------------------------------

    def _bodies(self, block: Block, manual: frozenset[str]) -> None:
        calls = [op for op in block.operations if _callee(op) is not None]
        users = _users(block) if calls else {}
        gone: set[Operation] = set()
        instead: dict[Operation, Operation] = {}
        for call in calls:
            body = self._body(call, users, manual)
            if body is not None:
                instead[call] = self._whole(body, manual)
                for border in (*body.entries, *body.exits):
                    gone.update(border.operations())
        kept = [instead.get(op, op) for op in block.operations if op not in gone]
        block.operations[:] = []
        for op in kept:
            block.append(op)

    def _body(self, call: Operation, users: _Users, manual: frozenset[str]) -> _Body | None:
        """What a call is the middle of; None: of nothing that is known here."""
        taken = [_taken(value, users) for value in call.operands]
        given = [_given(value, users) for value in call.results if users.get(value)]
        if not given or any(border is None for border in (*taken, *given)):
            return None
        entries = [border for border in taken if border is not None]
        exits = [border for border in given if border is not None]
        outside = [_sharding_of(b.outside) for b in (*entries, *exits)]
        mesh = next((s.mesh for s in outside if s is not None and s.mesh is not None), None)
        if mesh is None or any(s is None or s.mesh != mesh for s in outside):
            return None
        inside = next((s for b in entries if (s := _sharding_of(b.border)) is not None), None)
        if inside is None:
            inside = self._said_inside(call)
        names = [name for name, _ in mesh.axes]
        if inside is not None and inside.mesh is not None:
            names = [axis.name for axis in inside.manual_axes]
        own = [name for name in names if name not in manual]
        return _Body(call, entries, exits, own)

    def _said_inside(self, call: Operation) -> Sharding | None:
        """What operations of a body say of where devices have each their own."""
        function = self._functions[str(_callee(call))]
        for op in function.regions[0].walk():
            said = _sharding_of(op)
            if said is not None and said.manual_axes:
                return said
        return None

    def _whole(self, body: _Body, manual: frozenset[str]) -> Operation:
        """The body with its borders as one operation."""
        call = body.call
        function = self._functions[str(_callee(call))]
        region = _copy_of(function.regions[0], {})
        inner = region.block
        end = inner.terminator
        end.name = "sdy.return"
        operands, cuts = [], []
        for number, border in enumerate(body.entries):
            operands.append(border.outside.operands[0])
            cuts.append(self._said(border.outside, border.outside.result))
            _reshape_argument(inner, number, border)
        results, outs, kept = [], [], []
        numbers = {value: k for k, value in enumerate(call.results)}
        for border in body.exits:
            value = end.operands[numbers[border.value]]
            if border.reshape is not None:
                before = Operation(
                    _RESHAPE, [value], border.reshape.result_types, {}, (), border.reshape.location
                )
                inner.operations.insert(-1, before)
                before.parent = inner
                value = before.result
            kept.append(value)
            results.append(border.outside.result)
            outs.append(self._said(border.outside, border.outside.result))
        end.operands = kept
        self._block(inner, manual | {*body.axes})
        attributes = self._manual_attributes(cuts, outs, body.axes)
        return _manual_computation(operands, results, attributes, region, call.location)

    def _said(self, op: Operation, value: Value) -> str:
        said = _sharding_of(op)
        assert said is not None
        text = self._text(said, value)
        assert text is not None
        return text

    def _manual_attributes(
        self, cuts: list[str], outs: list[str], axes: list[str]
    ) -> dict[str, Attribute]:
        per_value = "sdy.sharding_per_value"
        names = ", ".join(map(quote, axes))
        return {
            "in_shardings": DialectAttribute(per_value, f"[{_in_angles(cuts)}]"),
            "out_shardings": DialectAttribute(per_value, f"[{_in_angles(outs)}]"),
            "manual_axes": DialectAttribute("sdy", f"manual_axes{{{names}}}"),
        }

    # -- arguments and results ---------------------------------------------------------------------

    def _arguments(self, main: Operation) -> None:
        said: Any = main.attributes.get("arg_attrs", ())
        changed = []
        for attributes, value in zip(said, main.regions[0].block.arguments):
            attributes = dict(attributes)
            sharding = parse_sharding(attributes[_HLO]) if _HLO in attributes else None
            text = None if sharding is None else self._text(sharding, value)
            if sharding is not None and (text is not None or sharding.kind == "unknown"):
                del attributes[_HLO]
            if text is not None:
                attributes[_OWN] = DialectAttribute(_OWN, text)
            changed.append(attributes)
        if any(changed):
            main.attributes["arg_attrs"] = tuple(changed)
        else:
            main.attributes.pop("arg_attrs", None)

    def _results(self, main: Operation) -> None:
        """What stands last and comes from no line of the program is asked of the results."""
        block = main.regions[0].block
        users = _users(block)
        end = block.terminator
        said: Any = main.attributes.get("res_attrs") or ({},) * len(end.operands)
        changed = [dict(attributes) for attributes in said]
        for k, value in enumerate(end.operands):
            op = value.defining_op
            if (
                op is not None
                and op.name == "sdy.sharding_constraint"
                and op.location is UNKNOWN_LOCATION
                and users[value] == [end]
            ):
                end.operands[k] = op.operands[0]
                changed[k][_OWN] = op.attributes["sharding"]
                block.operations.remove(op)
        if any(changed):
            main.attributes["res_attrs"] = tuple(changed)

    # -- texts -------------------------------------------------------------------------------------

    def _text(self, said: Sharding, value: Value) -> str | None:
        """`@mesh, [{"x"}, {?}]`; None: there is no such."""
        rank = len(value.type.dimensions or ()) if isinstance(value.type, TensorType) else 0
        if said.kind == "replicated":
            return f"@{self._mesh(Mesh(()))}, {_closed(rank)}"
        if said.kind == "maximal":
            assert isinstance(said.devices, tuple)
            return f"@{self._mesh(Mesh((), said.devices))}, []"
        if said.mesh is None:
            return None
        text = str(Sharding(
            "mesh", mesh=said.mesh, dimensions=said.dimensions,
            open_dimensions=said.open_dimensions, priorities=said.priorities,
            replicated_axes=said.replicated_axes, unreduced_axes=said.unreduced_axes,
        ))  # fmt: skip
        rest = text[1:-1].removeprefix(f"{said.mesh}, ").replace("'", '"')
        if not said.dimensions:
            rest = _closed(rank) + rest.removeprefix("replicated")
        return f"@{self._mesh(said.mesh)}, {rest}"

    def _mesh(self, mesh: Mesh) -> str:
        name = self._meshes.get(mesh)
        if name is None:
            base = "mesh"
            if not mesh.axes:
                base = f"maximal_mesh_{mesh.devices[0]}" if mesh.devices else "empty_mesh"
            name, number = base, 0
            while name in self._taken:
                name, number = f"{base}_{number}", number + 1
            self._taken.add(name)
            self._meshes[mesh] = name
        return name


class _Border(NamedTuple):
    """Between a whole value and a body's part of it.

    Fields:
      value: as the call takes or gives it.
      outside: says how the whole value lies.
      border: the call that makes the one of the other.
      reshape: between that and the value of the call.
    """

    value: Value
    outside: Operation
    border: Operation
    reshape: Operation | None

    def operations(self) -> set[Operation]:
        return {op for op in (self.outside, self.border, self.reshape) if op is not None}


class _Body(NamedTuple):
    call: Operation
    entries: list[_Border]
    exits: list[_Border]
    axes: list[str]  # that are manual inside and not outside


_Users = dict[Value, list[Operation]]


def _taken(value: Value, users: _Users) -> _Border | None:
    """The border that an operand of a call comes over."""
    if len(users[value]) != 1:
        return None
    op = value.defining_op
    reshape = None
    if op is not None and op.name == _RESHAPE and len(users[op.operands[0]]) == 1:
        reshape, op = op, op.operands[0].defining_op
    if op is None or _target(op) != _TO_PARTS:
        return None
    cut = op.operands[0].defining_op
    if cut is None or not _is_constraint(cut) or len(users[cut.result]) != 1:
        return None
    return _Border(value, cut, op, reshape)


def _given(value: Value, users: _Users) -> _Border | None:
    """The border that a result of a call goes over."""
    (user, *others) = users[value]
    reshape = None
    if not others and user.name == _RESHAPE and len(users[user.result]) == 1:
        reshape, user = user, users[user.result][0]
    if others or _target(user) != _TO_WHOLE:
        return None
    return _Border(value, user, user, reshape)


def _users(block: Block) -> _Users:
    """The operations that use each value, with those inside of regions, once for each use."""
    found: _Users = {}
    for op in block.operations:
        inner = [o for region in op.regions for o in region.walk()]
        for user in (op, *inner):
            for value in user.operands:
                found.setdefault(value, []).append(user)
    return found


def _manual_computation(
    operands: list[Value],
    results: list[Value],
    attributes: dict[str, Attribute],
    region: Region,
    location: Location,
) -> Operation:
    """One whose results are these values, which others gave."""
    whole = Operation("sdy.manual_computation", operands, (), attributes, [region], location)
    whole.results = results
    for number, value in enumerate(results):
        value.owner, value.index = whole, number
    return whole


def _reshape_argument(inner: Block, number: int, border: _Border) -> None:
    """The body takes what comes over the border, and reshapes it itself."""
    if border.reshape is None:
        return
    old = inner.arguments[number]
    new = Value(border.border.result.type, inner, number)
    op = Operation(_RESHAPE, [new], [old.type], {}, (), border.reshape.location)
    for user in inner.parent.walk() if inner.parent is not None else ():
        user.operands = [op.result if value is old else value for value in user.operands]
    inner.arguments[number] = new
    op.parent = inner
    inner.operations.insert(0, op)


def _copy_of(region: Region, values: dict[Value, Value]) -> Region:
    """A region with values of its own."""
    blocks = []
    for block in region.blocks:
        copy = Block([a.type for a in block.arguments])
        copy.argument_locations = list(block.argument_locations)
        values.update(zip(block.arguments, copy.arguments))
        for op in block.operations:
            regions = [_copy_of(inner, values) for inner in op.regions]
            operands = [values.get(v, v) for v in op.operands]
            types, attributes = op.result_types, dict(op.attributes)
            again = Operation(op.name, operands, types, attributes, regions, op.location)
            values.update(zip(op.results, again.results))
            copy.append(again)
        blocks.append(copy)
    return Region(blocks)


def _target(op: Operation) -> str:
    if op.name != "stablehlo.custom_call":
        return ""
    name: Any = op.attributes["call_target_name"]
    return str(name)


def _is_constraint(op: Operation) -> bool:
    return _target(op) == _CONSTRAINT and len(op.results) == 1


def _callee(op: Operation) -> str | None:
    """The function that an operation calls."""
    callee: Any = op.attributes.get("callee") if op.name == "func.call" else None
    return None if callee is None else str(callee.name)


def _symbols(values: tuple[Any, ...]) -> Iterator[str]:
    """The names in attributes."""
    for value in values:
        if isinstance(value, SymbolAttribute):
            yield value.name
        elif isinstance(value, tuple):
            yield from _symbols(value)


def _sharding_of(op: Operation) -> Sharding | None:
    text: Any = op.attributes.get(_HLO)
    return None if text is None else parse_sharding(text)


def _closed(rank: int) -> str:
    return "[" + ", ".join(["{}"] * rank) + "]"


def _in_angles(texts: list[str]) -> str:
    return ", ".join(f"<{text}>" for text in texts)


def _mesh_operation(name: str, mesh: Mesh) -> Operation:
    axes = ", ".join(f"{quote(axis)}={size}" for axis, size in mesh.axes)
    attributes: dict[str, Attribute] = {"sym_name": name}
    if mesh.devices is None:
        attributes["mesh"] = DialectAttribute("sdy.mesh", f"[{axes}]")
        sizes = tuple({"name": a, "size": IntegerAttribute(size, I64)} for a, size in mesh.axes)
        attributes["stablehlo.mesh"] = {"axes": sizes}
    else:
        ids = ", ".join(map(str, mesh.devices if not mesh.axes else mesh.ids().ravel().tolist()))
        attributes["mesh"] = DialectAttribute("sdy.mesh", f"[{axes}], device_ids=[{ids}]")
    return Operation("sdy.mesh", (), (), attributes)
