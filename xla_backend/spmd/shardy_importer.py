"""Shardings as Shardy writes them into HLO: attributes of the frontend, and calls around bodies
that see parts."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit
from xla_backend.spmd.manual import BARRIER, CONSTRAINT, GROUP, SOURCES, TO_PARTS, TO_WHOLE

_ATTRIBUTE = re.compile(r'xla\.sdy\.(\w+)="((?:[^"\\]|\\.)*)"')
_OWN_SHARDING = re.compile(r',?\s*xla\.sdy\.sharding="(?:[^"\\]|\\.)*"')
_MESH = re.compile(r"(\w+) = #sdy\.mesh<\[([^\]]*)\](?:, device_ids=\[([\d, ]*)\])?>")
_INLINE_MESH = r"mesh<\[[^\]]*\](?:, device_ids=\[[\d, ]*\])?>"
_SHARDING = re.compile(rf"<(@\w+|{_INLINE_MESH}), ([^<>]*)>")
_QUOTE = re.compile(r'\\(?:"|22)')  # as HLO and as StableHLO escape it
_NAME = re.compile(r'"[^"]*"')
_MANUAL_AXES = re.compile(r"manual_axes(\{[^}]*\})")
_INTO, _OUT_OF = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_BARRIER, _GROUP = "xla.sdy.PropagationBarrier", "xla.sdy.ShardingGroup"
_DIRECTIONS = ("NONE", "FORWARD", "BACKWARD", "BOTH")


class ShardyImporter(HloPass):
    """`xla.sdy.sharding` of instructions -> their sharding, with open dimensions, priorities and
    names of axes; calls of `xla.sdy.GlobalToLocalShape` and back, barriers and groups -> the custom
    calls that the partitioner knows.

    Why: programs of JAX say in this form how they are cut.
    Needs: nothing.  Leaves: no such calls.
    """

    name = "shardy-xla"

    def run(self, module: HloModule) -> bool:
        if module.num_partitions == 1:
            return False
        self._meshes = _meshes(str(module.attributes.get("frontend_attributes", "")))
        self._inside = self._manual_axes(module)
        return super().run(module)

    def _manual_axes(self, module: HloModule) -> dict[Computation, _Inside]:
        """Where parts are seen: on which mesh, along which axes. A computation that is called from
        several such places sees them along the axes of all."""
        found: dict[Computation, _Inside] = {}
        for computation in reversed(module.computations):  # callers first
            around = found.get(computation, _NOWHERE)
            for node in computation.instructions:
                inside = around
                border = _border_of(node) if node.opcode is Opcode.CALL else None
                if border is not None:
                    mesh, axes = self._said_manual(border)
                    inside = _Inside(mesh, _joined(around.axes, axes))
                for callee in node.called:
                    before = found.get(callee, inside)
                    common = tuple(a for a in inside.axes if a in before.axes)
                    found[callee] = _Inside(inside.mesh, common)
        return found

    def _said_manual(self, border: Instruction) -> tuple[str, tuple[str, ...]]:
        said = _said(border)
        names = _SHARDING.findall(said.get("in_shardings") or said["out_shardings"])
        axes = _MANUAL_AXES.search(said["manual_axes"])
        listed = () if axes is None else tuple(_NAME.findall(axes[1]))
        return self._mesh(border, names[0][0]), listed

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        around = self._inside.get(computation, _NOWHERE)
        for node in computation.post_order():
            said = _said(node)
            before = node.annotations or {}
            if around.axes and node.opcode in SOURCES and "sharding" not in before:
                node.annotations = {**before, "sharding": around.sharding()}
                changed = True
            if "sharding" in said:
                text = self._together(node, said["sharding"])
                changed = True
                node.annotations = _without_sharding({**before, "sharding": text})
            target = getattr(node.attributes, "target", "")
            if target in (_INTO, _OUT_OF):
                self._border(computation, node, said, into=target == _INTO)
                changed = True
            elif target in (_BARRIER, _GROUP):
                self._guide(node, said)
                changed = True
        return changed

    def _together(self, node: Instruction, text: str) -> str:
        """The sharding of an instruction, of each leaf one."""
        each = self._shardings(node, text)
        return "{" + ", ".join(each) + "}" if node.shape.is_tuple else each[0]

    def _shardings(self, node: Instruction, text: str) -> list[str]:
        found = []
        for name, dimensions in _SHARDING.findall(text):
            assert node.parent is not None
            around = self._inside.get(node.parent, _NOWHERE)
            found.append(_sharding(self._mesh(node, name), dimensions, around.axes))
        if not found:
            raise UnimplementedError(f"%{node.name}: no sharding on a mesh: {text}")
        return found

    def _mesh(self, node: Instruction, name: str) -> str:
        """A mesh by its name, or as it is written."""
        if not name.startswith("@"):
            return _mesh(*_MESH.findall(f"inline = #sdy.{name}")[0][1:])
        if name[1:] not in self._meshes:
            raise UnimplementedError(f"%{node.name}: the module has no mesh {name[1:]!r}")
        return self._meshes[name[1:]]

    def _guide(self, node: Instruction, said: dict[str, str]) -> None:
        """Barriers and groups, with what they say as configuration."""
        is_barrier = getattr(node.attributes, "target", "") == _BARRIER
        text = said["allowed_direction" if is_barrier else "sharding_group_id"]
        number = int(text.partition(":")[0])
        config = _DIRECTIONS[number] if is_barrier else str(number)
        node.attributes = CustomCallAttributes(BARRIER if is_barrier else GROUP, config)

    def _border(
        self, computation: Computation, node: Instruction, said: dict[str, str], *, into: bool
    ) -> None:
        """Where a body begins, or ends, that sees parts along manual axes."""
        b = Emit(node)
        text = said["in_shardings" if into else "out_shardings"]
        if "unreduced=" in text:
            raise UnimplementedError(
                f"%{node.name}: bodies that see parts take and give no unreduced values: {text}"
            )
        shardings = self._shardings(node, text)
        mesh, axes = self._said_manual(node)
        around = self._inside.get(computation, _NOWHERE).axes
        manual = _Inside(mesh, _joined(around, axes)).sharding()
        made = []
        for operand, leaf, own in zip(node.operands, node.shape.flatten(), shardings):
            if into:
                cut = _call(b, CONSTRAINT, operand, operand.shape, own)
                made.append(_call(b, TO_PARTS, cut, leaf, manual))
            else:
                made.append(_call(b, TO_WHOLE, operand, leaf, own))
        computation.replace_uses(node, b.tuple(made) if node.shape.is_tuple else made[0])
        computation.remove(node)


class _Inside(NamedTuple):
    """Where parts are seen: the mesh, as HLO writes it, and its axes along which they are."""

    mesh: str
    axes: tuple[str, ...]

    def sharding(self) -> str:
        return f"{{{self.mesh}, replicated, {_manual(self.axes)}}}".replace('"', "'")


_NOWHERE = _Inside("", ())


def _joined(outer: tuple[str, ...], inner: tuple[str, ...]) -> tuple[str, ...]:
    return (*outer, *(axis for axis in inner if axis not in outer))


def _manual(axes: tuple[str, ...]) -> str:
    return f"manual={{{', '.join(axes)}}}"


def _border_of(call: Instruction) -> Instruction | None:
    """The call in front of that of a body, or behind it."""
    around = [x.operands[0] if x.opcode is Opcode.GET_TUPLE_ELEMENT else x for x in call.operands]
    for user in call.users:
        around += user.users if user.opcode is Opcode.GET_TUPLE_ELEMENT else [user]
    for node in around:
        if getattr(node.attributes, "target", "") in (_INTO, _OUT_OF):
            return node
    return None


def _sharding(mesh: str, dimensions: str, manual: tuple[str, ...]) -> str:
    """As HLO writes it, with priorities. A mesh without axes is one device, or any."""
    if mesh.startswith("mesh[]"):
        device = mesh.partition("device_ids=")[2].strip("()")
        return f"{{maximal device={device}}}" if device else "{replicated}"
    others = f", {_manual(manual)}" if manual else ""
    return f"{{{mesh}, {dimensions}{others}}}".replace('"', "'")


def _call(b: Emit, target: str, operand: Instruction, shape: Shape, sharding: str) -> Instruction:
    made = b.add(Opcode.CUSTOM_CALL, (operand,), CustomCallAttributes(target), shape=shape)
    made.annotations = {"sharding": sharding}
    return made


def _said(node: Instruction) -> dict[str, str]:
    """What the frontend says of an instruction, by name without `xla.sdy.`."""
    text = str((node.annotations or {}).get("frontend_attributes", ""))
    return {name: _QUOTE.sub('"', value) for name, value in _ATTRIBUTE.findall(text)}


def _without_sharding(annotations: dict[str, Any]) -> dict[str, Any]:
    """What the frontend says besides: a program that calls this one has other meshes."""
    others = _OWN_SHARDING.sub("", str(annotations.pop("frontend_attributes"))[1:-1]).lstrip(", ")
    if others:
        annotations["frontend_attributes"] = f"{{{others}}}"
    return annotations


def _meshes(text: str) -> dict[str, str]:
    """Meshes by name, as HLO writes them."""
    return {name: _mesh(axes, devices) for name, axes, devices in _MESH.findall(text)}


def _mesh(axes: str, devices: str) -> str:
    order = f", device_ids=({devices.replace(' ', '')})" if devices else ""
    return f"mesh[{axes.replace(' ', '')}]{order}"
