"""The HLO verifier: every invariant that passes and code generation rely on.

Checked per module: names, call graph, aliases, donors, channels; per computation: root, parameters,
use lists, acyclicity, schedule; per instruction: attributes of the right class, number of operands
and called computations, the shape against shape inference (which holds the constraints of each
opcode), and its neighbours (verifier_links.py). Run before and after every pass when
`CompileOptions.verify` is set; the error names the pass.
"""

from __future__ import annotations

import re
from typing import NoReturn

from xla_backend.hlo.attribute_text import CODECS, REQUIRED
from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    ConditionalAttributes,
    ConstantAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.errors import ShapeInferenceError, VerificationError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule, source_places
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.printer import instruction_to_text
from xla_backend.hlo.shape import UNBOUNDED, Shape
from xla_backend.hlo.shape_inference import infer_shape
from xla_backend.hlo.source_tables import place_lines
from xla_backend.hlo.verifier_links import CHECKS, channel_conflicts
from xla_backend.hlo.verifier_sharding import sharding_complaint

_DONOR = re.compile(r"\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}\s*\)")
_OWN_CLASS = {
    Opcode.PARAMETER: ParameterAttributes,
    Opcode.CONSTANT: ConstantAttributes,
    Opcode.CONDITIONAL: ConditionalAttributes,
}


def verify(module: HloModule, *, after: str | None = None) -> None:
    """Raise VerificationError at the first broken invariant.

    Args:
      after: name of the pass that ran last; it goes into the message.
    Raises:
      VerificationError: what is broken, the instruction's text, its computation and the user's
      source line.
    """
    _Verifier(module, after).run()


class _Verifier:
    def __init__(self, module: HloModule, after: str | None) -> None:
        self.module = module
        self.after = after

    def fail(
        self, what: str, node: Instruction | None = None, computation: Computation | None = None
    ) -> NoReturn:
        if node is not None and not what.startswith(f"{node.opcode}("):
            operands = ", ".join(str(o.shape) for o in node.operands)
            what = f"{node.opcode}({operands}): {what}"
        lines = [f"after pass '{self.after}': {what}" if self.after else what]
        if node is not None:
            try:
                text = instruction_to_text(node, "long")
            except (
                Exception
            ):  # the broken instruction may not even print; the first line says what is wrong
                text = repr(node)
            lines.append("  " + (text if len(text) < 600 else text[:600] + " ..."))
            computation = computation or node.parent
        if computation is not None:
            lines.append(f"  in computation %{computation.name} of module {self.module.name}")
        else:
            lines.append(f"  in module {self.module.name}")
        if node is not None:
            places = place_lines(source_places(node))
            lines += [f"  from {line}" for line in places[:1]]
            lines += [f"    {line}" for line in places[1:]]
        raise VerificationError("\n".join(lines))

    def run(self) -> None:
        self._module()
        for computation in self.module.computations:
            self._computation(computation)
        self._callers()
        self._aliases()
        self._donors()
        self._entry_layout()
        for node, complaint in channel_conflicts(self.module):
            self.fail(complaint, node)

    # -- module ------------------------------------------------------------------------------------

    def _module(self) -> None:
        module = self.module
        # module_c1
        if module.entry is None:
            self.fail("the module has no entry computation")
        # module_c2
        if module.entry not in module.computations:
            self.fail(f"the entry %{module.entry.name} is not among the module's computations")
        names: set[str] = set()
        for computation in module.computations:
            # module_c3
            if computation.name in names:
                self.fail(f"two computations are named %{computation.name}")
            names.add(computation.name)
            # module_c4
            if computation.module is not module:
                self.fail("a computation belongs to another module", computation=computation)
        self._source_tables()
        self._call_graph()

    def _call_graph(self) -> None:
        """Callees belong to the module, and nothing calls itself."""
        known = set(self.module.computations)
        for computation in self.module.computations:
            for node in computation:
                for callee in node.called:
                    # module_c5
                    if callee not in known:
                        self.fail(f"calls %{callee.name}, which is not in the module", node)
        state: dict[Computation, int] = {}  # 1: being visited, 2: done
        for start in self.module.computations:
            if start in state:
                continue
            state[start] = 1
            stack = [(start, _calls_of(start))]
            while stack:
                computation, calls = stack[-1]
                if not calls:
                    state[computation] = 2
                    stack.pop()
                    continue
                node, callee = calls.pop()
                # module_c6
                if state.get(callee) == 1:
                    self.fail(f"%{callee.name} calls itself, here", node)
                if callee not in state:
                    state[callee] = 1
                    stack.append((callee, _calls_of(callee)))

    def _callers(self) -> None:
        """A fused computation belongs to one fusion; the entry is called by nobody."""
        fused: set[Computation] = set()
        for computation in self.module.computations:
            for node in computation:
                for callee in node.called:
                    # module_c7
                    if callee is self.module.entry:
                        self.fail("the entry computation is called", node)
                    # module_c8
                    if callee in fused:
                        self.fail(f"%{callee.name} is fused and has another caller", node)
                    if node.opcode is Opcode.FUSION:
                        fused.add(callee)

    def _aliases(self) -> None:
        assert self.module.entry is not None
        parameters, root = self.module.entry.program_shape
        seen_outputs: set[tuple[int, ...]] = set()
        seen_parameters: set[tuple[int, tuple[int, ...]]] = set()
        for alias in self.module.aliases:
            # alias_c1
            if not 0 <= alias.parameter < len(parameters):
                self.fail(
                    f"input_output_alias names parameter {alias.parameter} of {len(parameters)}"
                )
            output = root.member(alias.output_index)
            source = parameters[alias.parameter].member(alias.parameter_index)
            # alias_c2
            if output is None or source is None:
                self.fail(f"input_output_alias has an index that does not exist: {alias}")
            # alias_c3
            if not output.is_array or output.byte_size != source.byte_size:
                self.fail(f"input_output_alias joins {source} and {output}; sizes must be equal")
            # alias_c4
            if alias.output_index in seen_outputs:
                self.fail(f"input_output_alias names output {alias.output_index} twice")
            key = (alias.parameter, alias.parameter_index)
            # alias_c5
            if key in seen_parameters:
                self.fail(f"input_output_alias names parameter {key} twice")
            seen_outputs.add(alias.output_index)
            seen_parameters.add(key)

    def _donors(self) -> None:
        """Parameters whose memory the program may reuse, but for outputs named already."""
        assert self.module.entry is not None
        parameters, _ = self.module.entry.program_shape
        taken = {(a.parameter, a.parameter_index) for a in self.module.aliases}
        for text in _DONOR.findall(str(self.module.attributes.get("buffer_donor", ""))):
            number, index = int(text[0]), tuple(map(int, filter(None, text[1].split(","))))
            exists = number < len(parameters) and parameters[number].member(index) is not None
            # buffer_donor_c1
            if not exists:
                self.fail(f"buffer_donor names parameter {number} {index}, which does not exist")
            # buffer_donor_c2
            if (number, index) in taken:
                self.fail(f"buffer_donor names parameter {number} {index}, which is aliased")

    def _entry_layout(self) -> None:
        """The layouts that the caller wants are for the shapes the entry has."""
        assert self.module.entry is not None
        if self.module.entry_layout is None:
            return
        wanted, wanted_result = self.module.entry_layout
        parameters, result = self.module.entry.program_shape
        # entry_layout_c1
        if len(wanted) != len(parameters):
            self.fail(
                f"entry_computation_layout has {len(wanted)} parameters, the entry "
                f"{len(parameters)}"
            )
        for i, (layout, shape) in enumerate(zip(wanted, parameters)):
            # entry_layout_c2
            if not layout.compatible(shape):
                self.fail(f"entry_computation_layout says {layout} of parameter {i}, {shape}")
        # entry_layout_c3
        if not wanted_result.compatible(result):
            self.fail(f"entry_computation_layout says {wanted_result} of the result, {result}")

    # -- computation -------------------------------------------------------------------------------

    def _source_tables(self) -> None:
        # source_tables_c1
        problem = self.module.source_tables.problem()
        if problem is not None:
            self.fail(f"{problem.title}: {problem}")
        # source_tables_c2
        frames = self.module.source_tables.frames
        for computation in self.module.computations:
            for node in computation:
                number = node.metadata.stack_frame_id
                if number and number not in frames:
                    text = f"{node.name}: stack_frame_id={number} is not in StackFrames"
                    self.fail(text, computation=computation)

    def _computation(self, computation: Computation) -> None:
        root = computation.root
        # computation_c1
        if root is None or root not in computation:
            self.fail("the computation has no root of its own", computation=computation)
        names: set[str] = set()
        for node in computation:
            # computation_c2
            if not node.name:
                self.fail("an instruction has no name", node)
            # computation_c3
            if node.name in names:
                self.fail(f"two instructions are named %{node.name}", node)
            names.add(node.name)
            self._edges(computation, node)
        self._parameters(computation)
        self._order(computation)
        for node in computation:
            self._instruction(node)

    def _edges(self, computation: Computation, node: Instruction) -> None:
        # computation_c4
        if node.parent is not computation:
            self.fail("the instruction's parent is another computation", node, computation)
        for operand in node.operands:
            # computation_c5
            if operand not in computation:
                self.fail(f"operand %{operand.name} is not in the same computation", node)
            # computation_c6
            if node not in operand.users:
                self.fail(f"operand %{operand.name} does not list this instruction as a user", node)
        for user in node.users:
            # computation_c7
            if user not in computation:
                self.fail(f"user %{user.name} is not in the same computation", node)
            # computation_c8
            if node not in user.operands:
                self.fail(f"%{user.name} is listed as a user but has no such operand", node)

    def _parameters(self, computation: Computation) -> None:
        count = 0
        for node in computation:
            if node.opcode is not Opcode.PARAMETER:
                continue
            count += 1
            attributes = node.attributes
            # parameter_c2
            if not isinstance(attributes, ParameterAttributes):
                self.fail("a parameter needs ParameterAttributes", node)
            number = attributes.number
            # parameter_c3
            if number >= len(computation.parameters) or computation.parameters[number] is not node:
                self.fail(f"is not registered as parameter {number} of its computation", node)
        # parameter_c4
        if count != len(computation.parameters):
            self.fail(
                f"{count} parameter instructions, {len(computation.parameters)} registered "
                "(a number is missing or given twice)",
                computation=computation,
            )

    def _order(self, computation: Computation) -> None:
        """No cycles; operands and control predecessors first when the module is scheduled."""
        done: set[Instruction] = set()
        ordered = True
        for node in computation:
            if not all(o in done for o in node.operands):
                ordered = False
                # schedule_c1
                if self.module.is_scheduled:
                    self.fail("is scheduled before one of its operands", node)
            if node.annotations and not all(p in done for p in node.control_predecessors):
                ordered = False
                # schedule_c2
                if self.module.is_scheduled:
                    self.fail("is scheduled before one of its control predecessors", node)
            done.add(node)
        if not ordered:
            self._acyclic(computation)

    def _acyclic(self, computation: Computation) -> None:
        remaining: dict[Instruction, int] = {}
        followers: dict[Instruction, list[Instruction]] = {node: [] for node in computation}
        for node in computation:
            needs = {*node.operands, *node.control_predecessors}
            remaining[node] = len(needs)
            for needed in needs:
                followers[needed].append(node)
        ready = [node for node, count in remaining.items() if count == 0]
        visited = 0
        while ready:
            visited += 1
            for follower in followers[ready.pop()]:
                remaining[follower] -= 1
                if remaining[follower] == 0:
                    ready.append(follower)
        # computation_c9
        if visited != len(computation):
            node = next(n for n, count in remaining.items() if count)
            what = "operands and control predecessors" if node.control_predecessors else "operands"
            self.fail(f"takes part in, or depends on, a cycle of {what}", node)

    # -- instruction -------------------------------------------------------------------------------

    def _instruction(self, node: Instruction) -> None:
        opcode = node.opcode
        self._attribute_class(node)
        arity, calls = opcode.arity, opcode.calls
        # instruction_c1
        if arity is not None and len(node.operands) != arity:
            self.fail(f"{opcode} takes {arity} operand(s), has {len(node.operands)}", node)
        # instruction_c2
        if calls is not None and len(node.called) != calls:
            self.fail(f"{opcode} calls {calls} computation(s), has {len(node.called)}", node)
        try:
            inferred = infer_shape(opcode, node.operands, node.attributes, node.called, node.shape)
        except ShapeInferenceError as error:
            self.fail(str(error), node)
        # instruction_c3
        if inferred is not node.shape and not inferred.compatible(node.shape):
            self.fail(f"has shape {node.shape}, its operands give {inferred}", node)
        self._layouts(node, node.shape)
        check = CHECKS.get(opcode)
        complaint = check(node) if check is not None else None
        if complaint is None and node.annotations:
            complaint = sharding_complaint(node)
        if complaint is not None:
            self.fail(complaint, node)

    def _attribute_class(self, node: Instruction) -> None:
        codec = CODECS[node.opcode]
        expected = _OWN_CLASS.get(node.opcode, codec.cls)
        if type(node.attributes) is expected:
            return
        has_defaults = codec.fields and all(f.default is not REQUIRED for f in codec.fields)
        if node.attributes is NO_ATTRIBUTES and has_defaults:
            return
        # instruction_c4
        self.fail(
            f"{node.opcode} needs {expected.__name__}, has {type(node.attributes).__name__}", node
        )

    def _layouts(self, node: Instruction, shape: Shape) -> None:
        # layout_c1
        if shape.tuple_shapes:
            for member in shape.tuple_shapes:
                self._layouts(node, member)
        elif shape.layout is not None and sorted(shape.layout) != list(range(shape.rank)):
            self.fail(f"layout {shape.layout} is not a permutation of its dimensions", node)
        # layout_c2
        if any(d < 0 and d != UNBOUNDED for d in shape.dimensions):
            self.fail(f"a dimension of {shape} is negative", node)


def _calls_of(computation: Computation) -> list[tuple[Instruction, Computation]]:
    return [(node, callee) for node in computation for callee in node.called]
