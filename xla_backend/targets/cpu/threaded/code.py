"""Instructions of one piece of threaded code, in the order in which they run.

Whatever an instruction computes has a slot of its own in the frame. Those that depend on nothing
but slots (`pure`) are there once, and in front of every loop that changes none of what they read;
what is the same for ever (`fixed`: constants, addresses) is at the beginning of the code. So a loop
runs what is different in each round, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xla_backend.targets.cpu.routines.threaded_names import LANES, PREFIX
from xla_backend.targets.cpu.threaded.assembler import Assembler, Frame, Label, Symbol, Word
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode

# Of the stack of the thread that runs the code.
MOST_BYTES = 1 << 16
# What reads whole vectors may read so far beyond a slot.
_BEYOND = 128
# What it takes to go from one instruction to the next, as measured over the benchmark suite: of
# single numbers the processor has several under way, of vectors it waits for memory, too.
_CYCLES_ALONE, _CYCLES_IN_LANES = 1.5, 5.0
_MAX_INSTRUCTIONS = 20_000

_Lines = list  # of instructions (name, operands...), labels, and lists of these


class _Scope:
    """A loop or a branch: what is known in it, where code may go that changes nothing there (in
    front of a loop; None: it stays), and how often it runs."""

    __slots__ = ("before", "keys", "lines", "weight")

    def __init__(self, lines: _Lines, before: _Lines | None, weight: float) -> None:
        self.lines = lines
        self.before = before
        self.weight = weight
        self.keys: list[tuple] = []


class Code:
    """A piece of code that is being written.

    Attributes:
      asm: the table that it becomes a part of.
      frame: the slots of what it computes.
      cycles: what one run takes, very roughly.
    """

    def __init__(self, asm: Assembler, frame: Frame) -> None:
        self.asm = asm
        self.frame = frame
        self.cycles = 0.0
        self._dispatch = _CYCLES_ALONE
        self._first: _Lines = []  # what is fixed
        self._scopes = [_Scope([self._first], None, 1.0)]
        self._lines = self._scopes[0].lines
        self._known: dict[tuple, int] = {}
        self._depth_of: dict[int, int] = {}  # of slots: how many scopes they are in
        self._count = 0
        # Slots that are taken again, by their bytes, and how many values are in those in use.
        self.reuses = False
        self._free: dict[int, list[int]] = {}
        self._holders: dict[int, int] = {}
        self._sizes: dict[int, int] = {}

    # -- instructions ------------------------------------------------------------------------------

    def emit(self, name: str, *operands: Word, cycles: float = 0.0) -> None:
        """An instruction that runs here. Its handler is called `name`, behind the prefix of all;
        `cycles` are those of its own work."""
        self._lines.append((name, *operands))
        self._count += 1
        self.cycles += self._scopes[-1].weight * (self._dispatch + cycles)

    def pure(
        self,
        name: str,
        nbytes: int,
        operands: tuple[Word, ...],
        uses: Sequence[int],
        cycles: float = 0.0,
    ) -> int:
        """The slot of the result, of so many bytes, of an instruction that depends on `uses`, the
        slots among its `operands`, and on nothing else. The result is its first operand."""
        key = (name, *operands)
        found = self._known.get(key)
        if found is None:
            slot = self.frame.slot(nbytes)
            self.run_early(slot, (name, slot, *operands), uses, cycles)
            found = self._known[key] = slot
            self._scopes[self._depth_of.get(slot, 0)].keys.append(key)
        return found

    def run_early(
        self, slot: int, instruction: tuple, uses: Sequence[int], cycles: float = 0.0
    ) -> None:
        """An instruction that computes what is in a slot from others, and runs as early as these
        allow."""
        scopes = self._scopes
        depth = len(scopes) - 1
        lines = self._lines
        if depth:
            depth_of, needed = self._depth_of, 0
            for use in uses:
                own = depth_of.get(use, 0)
                if own > needed:
                    needed = own
            while depth > needed and (before := scopes[depth].before) is not None:
                lines = before
                depth -= 1
            if depth:
                depth_of[slot] = depth
        lines.append(instruction)
        self._count += 1
        self.cycles += scopes[depth].weight * (self._dispatch + cycles)

    def fixed(self, name: str, *operands: Word, nbytes: int = 8) -> int:
        """The slot of what is the same in the whole code."""
        key = (name, *operands)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.frame.slot(nbytes)
            self._first.append((name, found, *operands))
            self._count += 1
            self.cycles += _CYCLES_ALONE
        return found

    def number(self, value: int) -> int:
        """The slot of a word that does not change."""
        return self.fixed("constant", value)

    def count_in_lanes(self, in_lanes: bool) -> None:
        """Let instructions that follow count as those of vectors, or of single numbers."""
        self._dispatch = _CYCLES_IN_LANES if in_lanes else _CYCLES_ALONE

    # -- slots -------------------------------------------------------------------------------------

    def slot(self, nbytes: int = 8) -> int:
        """A slot for what is computed here."""
        slot = self._free_slot(nbytes) if self.reuses else self.frame.slot(nbytes)
        self.is_set_here(slot)
        return slot

    def slot_here(self, nbytes: int, uses: Sequence[int]) -> int:
        """A slot for what `run_early` computes from `uses`."""
        depth = len(self._scopes) - 1
        if any(self._depth_of.get(use, 0) == depth for use in uses):
            return self._free_slot(nbytes)
        return self.frame.slot(nbytes)

    def _free_slot(self, nbytes: int) -> int:
        free = self._free.get(nbytes)
        slot = free.pop() if free else self.frame.slot(nbytes)
        self._holders[slot] = 0
        self._sizes[slot] = nbytes
        return slot

    def reuse_slots(self, reuses: bool) -> None:
        """Let slots of what is computed here be taken again from now on, once nobody holds
        them; or no more."""
        self.reuses = reuses
        self._free.clear()
        self._holders.clear()

    def hold(self, slot: int) -> None:
        """Let a value be in a slot."""
        if slot in self._holders:
            self._holders[slot] += 1

    def let_go(self, slot: int) -> None:
        """Let one value less be in a slot."""
        holders = self._holders.get(slot)
        if holders is None:
            return
        self._holders[slot] = holders - 1
        if holders == 1:
            del self._holders[slot]
            self._forget(slot)
            self._free.setdefault(self._sizes[slot], []).append(slot)

    def _forget(self, slot: int) -> None:
        """What was computed from a slot is not known any more."""
        keys = self._scopes[-1].keys
        for key in [key for key in keys if slot in key]:
            keys.remove(key)
            del self._known[key]

    def is_set_here(self, slot: int) -> None:
        """Let a slot be one that changes in each round of the innermost loop."""
        depth = len(self._scopes) - 1
        if depth:
            self._depth_of[slot] = depth
        else:
            self._depth_of.pop(slot, None)

    # -- loops and branches ------------------------------------------------------------------------

    def place(self, label: Label) -> None:
        """Let a label be here."""
        self._lines.append(label)

    def begin_loop(self, rounds: float) -> None:
        """What follows, until `end`, runs in `rounds`; the caller writes what counts and jumps."""
        before: _Lines = []
        self._lines.append(before)
        self._push(before, rounds)

    def begin_branch(self, share: float = 1.0) -> None:
        """What follows, until `end`, runs under a condition, in such a share of all cases."""
        self._push(None, share)

    def _push(self, before: _Lines | None, share: float) -> None:
        scope = _Scope(self._lines, before, self._scopes[-1].weight * share)
        self._scopes.append(scope)

    def end(self) -> None:
        """The end of a loop or branch."""
        for key in self._scopes.pop().keys:
            del self._known[key]

    # -- the whole ---------------------------------------------------------------------------------

    def subroutine(self) -> Label:
        """Put the code into the table, as a subroutine."""
        assert len(self._scopes) == 1, "a loop or branch has no end"
        if self._count > _MAX_INSTRUCTIONS:
            raise NoThreadedCode(f"{self._count} instructions")
        size = self.frame.size + _BEYOND
        if size > MOST_BYTES:
            raise NoThreadedCode(f"{size} bytes of values")
        self.emit("return")
        words: list[Word] = []
        start = self.asm.place()
        assert start.word is not None
        _flatten(self._lines, words, start.word)
        self.asm.words(words)
        self.frame.slot(_BEYOND)
        return self.asm.subroutine(start, self.frame)


def _flatten(lines: _Lines, words: list[Word], first: int) -> None:
    """The words of instructions, of which the first is number `first` of the table."""
    for line in lines:
        if line.__class__ is tuple:
            words.append(_handler(line[0]))
            words += line[1:]
        elif line.__class__ is Label:
            line.word = first + len(words)
        else:
            _flatten(line, words, first)


@cache
def _handler(name: str) -> Symbol:
    return Symbol(PREFIX + name)


def chunks(lanes: int, per_chunk: int = LANES) -> int:
    """How many times a handler that takes so many lanes at once runs for a vector."""
    return -(-lanes // per_chunk)
