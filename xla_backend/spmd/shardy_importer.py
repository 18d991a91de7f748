"""Shardings as Shardy writes them into HLO: attributes of the frontend, and calls around bodies
that see parts."""

from __future__ import annotations

import re

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit
from xla_backend.spmd.manual import BARRIER, CONSTRAINT, GROUP, TO_PARTS, TO_WHOLE

_ATTRIBUTE = re.compile(r'xla\.sdy\.(\w+)="((?:[^"\\]|\\.)*)"')
_MESH = re.compile(r"(\w+) = #sdy\.mesh<\[([^\]]*)\](?:, device_ids=\[([\d, ]*)\])?>")
_INLINE_MESH = r"mesh<\[[^\]]*\](?:, device_ids=\[[\d, ]*\])?>"
_SHARDING = re.compile(rf"<(@\w+|{_INLINE_MESH}), ([^<>]*)>")
_QUOTE = re.compile(r'\\(?:"|22)')  # as HLO and as StableHLO escape it
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
        return super().run(module)

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order():
            said = _said(node)
            if "sharding" in said:
                text = self._together(node, said["sharding"])
                changed |= (node.annotations or {}).get("sharding") != text
                node.annotations = {**(node.annotations or {}), "sharding": text}
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
            found.append(_sharding(self._mesh(node, name), dimensions))
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
        axes = _MANUAL_AXES.search(said["manual_axes"])
        mesh = self._mesh(node, _SHARDING.findall(text)[0][0])
        manual = f"{{{mesh}, replicated, manual={axes[1] if axes else '{}'}}}".replace('"', "'")
        made = []
        for operand, leaf, own in zip(node.operands, node.shape.flatten(), shardings):
            if into:
                cut = _call(b, CONSTRAINT, operand, operand.shape, own)
                made.append(_call(b, TO_PARTS, cut, leaf, manual))
            else:
                made.append(_call(b, TO_WHOLE, operand, leaf, own))
        computation.replace_uses(node, b.tuple(made) if node.shape.is_tuple else made[0])
        computation.remove(node)


def _sharding(mesh: str, dimensions: str) -> str:
    """As HLO writes it, with priorities. A mesh without axes is one device, or any."""
    if mesh.startswith("mesh[]"):
        device = mesh.partition("device_ids=")[2].strip("()")
        return f"{{maximal device={device}}}" if device else "{replicated}"
    return f"{{{mesh}, {dimensions}}}".replace('"', "'")


def _call(b: Emit, target: str, operand: Instruction, shape: Shape, sharding: str) -> Instruction:
    made = b.add(Opcode.CUSTOM_CALL, (operand,), CustomCallAttributes(target), shape=shape)
    made.annotations = {"sharding": sharding}
    return made


def _said(node: Instruction) -> dict[str, str]:
    """What the frontend says of an instruction, by name without `xla.sdy.`."""
    text = str((node.annotations or {}).get("frontend_attributes", ""))
    return {name: _QUOTE.sub('"', value) for name, value in _ATTRIBUTE.findall(text)}


def _meshes(text: str) -> dict[str, str]:
    """Meshes by name, as HLO writes them."""
    return {name: _mesh(axes, devices) for name, axes, devices in _MESH.findall(text)}


def _mesh(axes: str, devices: str) -> str:
    order = f", device_ids=({devices.replace(' ', '')})" if devices else ""
    return f"mesh[{axes.replace(' ', '')}]{order}"
