"""HloPass and Pipeline: what every pass derives from, and what runs passes in order.

A pass mutates a module in place and returns True iff it changed something. A Pipeline is itself a
pass, so pipelines nest; a fixed point is a pipeline that repeats until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from time import perf_counter
from typing import NamedTuple, Protocol, TypeVar

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.audit import RoundAudit, check_report, no_bool, not_concerned
from xla_backend.passes.fuel import Fuel, fuel_by_name, report_unused
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.process.no_collections import without_collections
from xla_backend.process.on_first_use import on_first_use

# Only those who watch need them.
_module_to_text = on_first_use("xla_backend.hlo.printer", "module_to_text")
_verify = on_first_use("xla_backend.hlo.verifier", "verify")

_Subject = TypeVar("_Subject")
# The package whose passes give no instruction another opcode.
_OURS = __name__.partition(".")[0]


class HloPass:
    """One rewrite of a module. Subclasses set `name` (kebab-case, ends in what the pass does) and
    override `run_on_computation`, or `run` where the whole module matters."""

    name: str = ""

    # If not empty, `run` skips computations that have none of these opcodes, and a pipeline does
    # not run the pass on a module without them.
    opcodes: frozenset[Opcode] = frozenset()

    # If not empty, a pipeline does not run the pass on a module without any of these either.
    module_opcodes: frozenset[Opcode] = frozenset()

    # Whether a second run right behind one that changed something changes nothing. (Whatever the
    # pass, a run behind one that changed nothing does not, for passes ask about the module only.)
    idempotent: bool = False

    # Checked after each run even outside checking mode: set on passes that users registered.
    verify_always: bool = False

    # Rewrites this pass may still do; None: any number. Set by the pipeline. A pass that counts
    # its rewrites asks `may_rewrite` before and calls `rewritten` after each; for others, a
    # computation (or a whole run) that changed counts as one.
    fuel: Fuel | None = None

    def run(self, module: HloModule) -> bool:
        """Run over every computation. True iff something changed."""
        changed = False
        opcodes = self.opcodes
        for computation in list(module.computations):
            if opcodes and opcodes.isdisjoint(computation.opcodes):
                continue
            if self.fuel is None:
                done = self.run_on_computation(computation)
            else:
                done = run_on_fuel(self.fuel, self.run_on_computation, computation)
            if done:
                changed = True
        return changed

    def may_rewrite(self) -> bool:
        """Whether there is fuel for one more rewrite."""
        return self.fuel is None or self.fuel.allows()

    def rewritten(self) -> None:
        """Note one rewrite."""
        if self.fuel is not None:
            self.fuel.burn()

    def likeness(self) -> object:
        """Equal for passes of this compiler that do the same."""
        return self if vars(self) else type(self)

    def run_on_computation(self, computation: Computation) -> bool:
        raise NotImplementedError(
            f"{type(self).__name__} overrides neither run nor run_on_computation"
        )


def run_on_fuel(fuel: Fuel, step: Callable[[_Subject], bool], subject: _Subject) -> bool:
    """Run a step if there is fuel; it counts as one rewrite unless it counted its own."""
    if not fuel.allows():
        return False
    left = fuel.left
    changed = step(subject)
    if changed and fuel.left == left:
        fuel.burn()
    return changed


class RuleTablePass(HloPass):
    """A simplification given as a table: for each opcode the rules that may rewrite it.

    A rule takes the instruction and returns its replacement (an instruction of the same
    computation, or a fresh one), or None when it does not apply. Rules of an opcode are tried in
    order; nodes are visited operands first, and a replacement is tried again at once, so most
    chains need one visit.
    """

    rules: dict[Opcode, tuple[Callable[[Instruction], Instruction | None], ...]] = {}
    retries = 4

    def run_on_computation(self, computation: Computation) -> bool:
        rules = self.rules
        if rules.keys().isdisjoint(computation.opcodes):
            return False
        changed = False
        for node in topological_order(computation):
            found = rules.get(node.opcode)
            if found is None or (not node.users and node is not computation.root):
                continue
            if self.fuel is not None and not self.fuel.allows():
                return changed
            for rule in found:
                replacement = rule(node)
                if replacement is not None:
                    changed = True
                    if not self._replace(computation, node, replacement):
                        return True
                    break
        return changed

    def _replace(
        self, computation: Computation, node: Instruction, replacement: Instruction
    ) -> bool:
        """Put the replacement there, and what rules make of it in its turn. False if there is no
        fuel left."""
        for _ in range(self.retries - 1):
            computation.replace(node, replacement)
            self.rewritten()
            if self.fuel is not None and not self.fuel.allows():
                return False
            node = replacement
            for rule in self.rules.get(node.opcode, ()):
                following = rule(node)
                if following is not None:
                    replacement = following
                    break
            else:
                return True
        computation.replace(node, replacement)
        self.rewritten()
        return True


def topological_order(computation: Computation) -> list[Instruction]:
    """Operands before users: the instructions' own order, which is made one first where it is not
    (edits append, and the check is quicker than a walk)."""
    if computation.is_ordered():
        return computation.instructions
    order = computation.post_order()
    computation.reorder(order)
    return order


@dataclass
class PassStatistics:
    """What one pass cost: how often it ran, how often it changed something, seconds."""

    runs: int = 0
    changes: int = 0
    seconds: float = 0.0


class PassRun(NamedTuple):
    """One run of a pass: in which pipeline, whether it changed the module, when it started
    (`time.perf_counter`) and how many seconds it took."""

    pipeline: str
    name: str
    changed: bool
    start: float
    seconds: float


# Called after each run of a pass, in whatever thread: by what records traces.
pass_listeners: list[Callable[[PassRun], None]] = []


class PassObserver(Protocol):
    """What wants to see the module between passes (dumps, the explorer)."""

    def between_passes(
        self, module: HloModule, pipeline: str, after: str, before: str, changed: bool
    ) -> None:
        """The module after one pass and before the next; the ends of a pipeline are called
        "pipeline-start" (nothing ran yet, `changed` is True) and "pipeline-end"."""


class _PassTable(NamedTuple):
    """Which passes of a pipeline look at a module with given opcodes. Passes are bits of a number:
    most of a round have nothing to look for, and are not even asked.

    Fields:
      given, selects: what the table was made of.
      passes: those that run.
      always: passes that do not say what they look for.
      by_opcode: those that look for an opcode.
      beside: opcodes of which the module must have one, too, by place; empty: of none.
      keys: equal for passes that do the same; None: one that runs whenever it is its turn.
    """

    given: list[HloPass]
    selects: Callable[[str], bool]
    passes: tuple[HloPass, ...]
    always: int
    by_opcode: dict[Opcode, int]
    beside: tuple[frozenset[Opcode], ...]
    keys: tuple[object, ...]

    def concerned(self, present: Collection[Opcode]) -> int:
        """Passes that look for what a module has."""
        found, by_opcode = self.always, self.by_opcode
        for opcode in present:
            found |= by_opcode.get(opcode, 0)
        return found


class Pipeline(HloPass):
    """Passes in order.

    Fields:
      max_iterations: 1 runs the passes once; more repeats them until a round changes nothing, and
        raises where the cap is reached in checking mode (outside it, a pipeline that does not
        settle is slow but right, so it goes on).
      options: disabled passes, checking mode, fuel.
      selects: whether the pass of a name runs; None: all but the disabled ones.
      observer: sees the module between passes.
      log: every run of a pass, in order. Like statistics, filled by the outermost pipeline. What
        passes whose opcodes the module lacks would do is nothing, nor what those would do that
        changed nothing and behind which nothing has changed: they do not run, unless the pipeline
        checks, counts rewrites or has an observer.
    """

    def __init__(
        self,
        name: str,
        passes: list[HloPass],
        options: CompileOptions | None = None,
        max_iterations: int = 1,
        selects: Callable[[str], bool] | None = None,
        observer: PassObserver | None = None,
    ) -> None:
        self.name = name
        self.passes = passes
        self.options = CompileOptions() if options is None else options
        self.max_iterations = max_iterations
        disabled = self.options.disabled_passes
        self.selects = (lambda name: name not in disabled) if selects is None else selects
        self.observer = observer
        self.log: list[PassRun] = []
        self._fuels: dict[str, Fuel] = {}
        self._watches = False
        # Opcodes of the module that the outermost pipeline runs on, None where they are not known.
        self._opcodes: set[Opcode] | None = None
        # How many runs have changed the module, and, by key, behind how many of them a pass
        # would do nothing.
        self._changes = 0
        self._settled: dict[object, int] = {}
        self._table: _PassTable | None = None

    def again(self) -> Pipeline:
        """The same pipeline for another module: with the same passes, which know nothing of the
        modules that they ran on, and a log of its own."""
        passes, options, most = self.passes, self.options, self.max_iterations
        copy = Pipeline(self.name, list(passes), options, most, self.selects, self.observer)
        copy._table = self._table_of(self.selects)
        return copy

    def run(self, module: HloModule) -> bool:
        if self.options.verify:
            _verify(module, after=f"input of {self.name}")
        options = self.options
        self._fuels = fuel_by_name(options.fuel) if options.fuel else {}
        self._watches = bool(options.verify or options.audits or options.fuel)
        self._opcodes = None
        self._changes = 0
        self._settled = {}
        # Passes make many small objects and drop few cycles: collecting would only cost time.
        changed = without_collections(self._run, module, self)
        if self._fuels:
            report_unused(self._fuels.values())
        return changed

    def _run(self, module: HloModule, outermost: Pipeline) -> bool:
        options = outermost.options
        if outermost.observer is None and not outermost._watches:
            run_round = outermost._run_quiet_round
        else:
            run_round = outermost._run_round
        table = self._table_of(outermost.selects)
        changed = False
        audits = self.max_iterations > 1 and (options.verify or options.audits)
        audit = RoundAudit(self.name, module) if audits else None
        for number in range(self.max_iterations):
            if not run_round(module, self.name, table):
                break
            changed = True
            if audit is not None and "cycles" in options.audits:
                audit.round_done(number, _module_to_text(module))
        else:
            if audit is not None and (options.verify or "max-iterations" in options.audits):
                raise audit.not_settled(self.max_iterations)
        return changed

    def _table_of(self, selects: Callable[[str], bool]) -> _PassTable:
        table = self._table
        if table is None or table.selects is not selects or table.given != self.passes:
            table = self._table = self._new_table(selects)
        return table

    def _new_table(self, selects: Callable[[str], bool]) -> _PassTable:
        passes = tuple(p for p in self.passes if selects(p.name))
        always, by_opcode, keys = 0, dict[Opcode, int](), list[object]()
        for i, hlo_pass in enumerate(passes):
            wanted = hlo_pass.opcodes
            if isinstance(hlo_pass, Pipeline):
                inner = hlo_pass._table_of(selects)
                wanted = frozenset() if inner.always else frozenset(inner.by_opcode)
            if hlo_pass.verify_always or not wanted:
                always |= 1 << i
            for opcode in wanted:
                by_opcode[opcode] = by_opcode.get(opcode, 0) | 1 << i
            keys.append(_key(hlo_pass))
        beside = tuple(frozenset() if p.verify_always else p.module_opcodes for p in passes)
        given = list(self.passes)
        return _PassTable(given, selects, passes, always, by_opcode, beside, tuple(keys))

    def _run_quiet_round(self, module: HloModule, pipeline: str, table: _PassTable) -> bool:
        """As `_run_round`, where nobody watches: only passes that may do something."""
        any_changed = False
        settled = self._settled
        _, _, passes, _, _, besides, keys = table
        left = table.concerned(self._present(module))
        while left:
            lowest = left & -left
            left ^= lowest
            place = lowest.bit_length() - 1
            key, beside = keys[place], besides[place]
            if key is not None and settled.get(key) == self._changes:
                continue
            if beside and beside.isdisjoint(self._present(module)):
                continue
            hlo_pass = passes[place]
            if isinstance(hlo_pass, Pipeline):
                changed = hlo_pass._run(module, self)
            elif hlo_pass.verify_always:
                changed = self._run_watched(module, pipeline, hlo_pass)
            else:
                changed = self._run_unwatched(module, pipeline, hlo_pass)
            if changed:
                any_changed = True
                left = table.concerned(self._present(module)) & -(lowest << 1)
            if key is not None and (hlo_pass.idempotent or not changed):
                settled[key] = self._changes
        return any_changed

    def _run_round(self, module: HloModule, pipeline: str, table: _PassTable) -> bool:
        """Every pass once, as the outermost pipeline."""
        observer, passes = self.observer, table.passes
        if observer is not None and passes:
            observer.between_passes(module, pipeline, "pipeline-start", passes[0].name, True)
        any_changed = False
        for i, hlo_pass in enumerate(passes):
            changed = self._run_one(module, pipeline, hlo_pass)
            any_changed |= changed
            if observer is not None:
                following = passes[i + 1].name if i + 1 < len(passes) else "pipeline-end"
                observer.between_passes(module, pipeline, hlo_pass.name, following, changed)
        return any_changed

    def _run_one(self, module: HloModule, pipeline: str, hlo_pass: HloPass) -> bool:
        if isinstance(hlo_pass, Pipeline):
            return hlo_pass._run(module, self)
        if self._watches or hlo_pass.verify_always:
            return self._run_watched(module, pipeline, hlo_pass)
        if not self._concerns(module, hlo_pass):
            return False
        return self._run_unwatched(module, pipeline, hlo_pass)

    def _run_unwatched(self, module: HloModule, pipeline: str, hlo_pass: HloPass) -> bool:
        start, analysis = perf_counter(), module.analysis
        changed = hlo_pass.run(module)
        run = PassRun(pipeline, hlo_pass.name, changed, start, perf_counter() - start)
        self._ended(module, run, analysis)
        if changed is not True and changed is not False:
            raise no_bool(module, hlo_pass.name, changed)
        if changed:
            _count_opcodes_behind(hlo_pass, module)
        return changed

    def _concerns(self, module: HloModule, hlo_pass: HloPass) -> bool:
        """Whether the module has opcodes that the pass looks for, as of the last pass that changed
        it."""
        present = self._present(module)
        wanted, beside = hlo_pass.opcodes, hlo_pass.module_opcodes
        if wanted and wanted.isdisjoint(present):
            return False
        return not (beside and beside.isdisjoint(present))

    def _present(self, module: HloModule) -> set[Opcode]:
        present = self._opcodes
        if present is None:
            present = self._opcodes = set()
            for computation in module.computations:
                present.update(computation.opcodes)
        return present

    def _run_watched(self, module: HloModule, pipeline: str, hlo_pass: HloPass) -> bool:
        """With fuel and audits."""
        name = hlo_pass.name
        audited = self.options.verify or bool(self.options.audits) or hlo_pass.verify_always
        before = _module_to_text(module) if audited else ""
        fuel = hlo_pass.fuel = self._fuels.get(name)
        concerned = self._concerns(module, hlo_pass)
        start, analysis = perf_counter(), module.analysis
        changed = hlo_pass.run(module) if fuel is None else run_on_fuel(fuel, hlo_pass.run, module)
        run = PassRun(pipeline, name, changed, start, perf_counter() - start)
        self._ended(module, run, analysis)
        if changed is not True and changed is not False:
            raise no_bool(module, name, changed)
        if changed and not concerned:
            raise not_concerned(module, name)
        if changed:
            _count_opcodes_behind(hlo_pass, module)
        if audited:
            self._audit(module, hlo_pass, before, changed)
        return changed

    def _ended(self, module: HloModule, run: PassRun, analysis: object) -> None:
        """`analysis`: what was known about the module before the run."""
        if run.changed:
            self._opcodes = None
            self._changes += 1
            if module.analysis is analysis:
                module.analysis = None
        self.log.append(run)
        for listener in pass_listeners:
            listener(run)

    def _audit(self, module: HloModule, hlo_pass: HloPass, before: str, changed: bool) -> None:
        everything = self.options.verify or hlo_pass.verify_always
        if everything:
            _verify(module, after=hlo_pass.name)
        wanted = "no-op-change" if changed else "silent-change"
        if everything or wanted in self.options.audits:
            check_report(module, hlo_pass.name, before, _module_to_text(module), changed)

    def flat_passes(self) -> Iterable[HloPass]:
        """Every pass, nested pipelines unfolded."""
        for hlo_pass in self.passes:
            if isinstance(hlo_pass, Pipeline):
                yield from hlo_pass.flat_passes()
            else:
                yield hlo_pass

    @property
    def statistics(self) -> dict[str, PassStatistics]:
        """What each pass cost so far, by name."""
        return pass_statistics(self.log)

    def report(self) -> str:
        """Time per pass, slowest first."""
        return pass_report(self.log)


def pass_statistics(log: Iterable[PassRun]) -> dict[str, PassStatistics]:
    """The runs of each pass added up, by name."""
    result: dict[str, PassStatistics] = {}
    for run in log:
        statistics = result.setdefault(run.name, PassStatistics())
        statistics.runs += 1
        statistics.changes += run.changed
        statistics.seconds += run.seconds
    return result


def pass_report(log: Iterable[PassRun]) -> str:
    """One line per pass: time, runs, runs that changed something; slowest first."""
    rows = sorted(pass_statistics(log).items(), key=lambda item: -item[1].seconds)
    return "\n".join(
        f"{s.seconds * 1e3:8.3f} ms  {s.runs:3d} runs  {s.changes:3d} changes  {name}"
        for name, s in rows
    )


def _key(hlo_pass: HloPass) -> object:
    """Equal for passes that do the same; None for what is to run whenever it is its turn: passes
    of users, which may ask about more than the module, and pipelines."""
    if isinstance(hlo_pass, Pipeline) or hlo_pass.verify_always or not _is_ours(hlo_pass):
        return None
    return hlo_pass.likeness()


def _is_ours(hlo_pass: HloPass) -> bool:
    return type(hlo_pass).__module__.partition(".")[0] == _OURS


def _count_opcodes_behind(hlo_pass: HloPass, module: HloModule) -> None:
    """Users' passes may give instructions other opcodes; those of the compiler make others."""
    if not _is_ours(hlo_pass):
        for computation in module.computations:
            computation.count_opcodes()
