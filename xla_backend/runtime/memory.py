"""Host memory for arrays: 64-byte aligned blocks in size classes, each with one owner, kept for
reuse within bounds.

Why a pool: the operating system hands out large blocks page by page at first touch, which costs
more than the arithmetic that fills them; and a small block from a free list costs a list pop.

Ownership. A block of memory is a `Block`: an int, its address, that gives the memory back when the
last reference to it goes. Whoever may still read or write the memory keeps the block: the array,
every NumPy view of it, and every call while native code runs. So nobody asks whether memory may be
freed, and deleting an array in one thread cannot hurt a program that runs in another.

What goes back to the system.

- Small blocks (up to 64 KiB) are carved from slabs, which stay for the life of the process: they
  take at most what the blocks of each size class once took together.
- Medium blocks (up to 1 MiB) have a mapping each. Of each size class, `MEDIUM_BYTES` of free blocks
  stay; those beyond go back at once.
- Large blocks have a mapping each, too. Free ones stay while all together are at most `KEPT_BYTES`;
  beyond that the size classes that were used longest ago go back first, at once.

A loop that frees and needs the same large temporary again would then fault its pages in at each
step. So a size class that went back and was asked for again within `HOT_SECONDS`, twice in a row,
is hot: a medium one may keep twice as much, a large one is kept until it was not used for that
long, both up to a quarter of all memory there is. Time is looked at when blocks are freed, not by a
clock of its own: a process that stops allocating keeps what it has; `trim` returns it.

None of that runs for most blocks: while as few bytes are free as may be, and no more are in use
than before, large ones come and go within a call of functions in C, as the others do.

What lies around a block. Vectors at the ends of an array reach beyond it, with lanes that are
masked off. Processors take microseconds for such an access if the page there is not mapped, or was
never touched, and do so at each turn of a loop. So pages around small and medium blocks are there:
small ones are carved piece by piece from slabs, and a piece is made present with its neighbouring
pages, medium ones have a page before and behind. Beside the time for a large block it is nothing.

If the system (or `limit`) refuses memory, programs that are under way end, garbage is collected,
everything free goes back, and it is asked once more.

No lock. Code here may be interrupted anywhere, by a signal handler that raises or by a garbage
collection, whose finalizers allocate and take locks of their own; they would wait for ever for a
thread that waits for a lock held here. So an address is always in a list of free ones or in a
Block, and goes from one to the other within a single call of functions in C, as does the count of
mappings. What decides how much goes back (times, streaks, bounds) is only roughly right when
threads change it at the same moment.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from operator import attrgetter, call, contains, gt, itemgetter
from time import monotonic
from typing import Any, TypeVar

from xla_backend.process.finalizers import handing_over, handing_over_then
from xla_backend.runtime.buffer import Buffer, OutOfMemory
from xla_backend.runtime.pages import (
    PAGE_BYTES,
    check_unmapped,
    expect_use,
    make_present,
    mapping,
    memory_limit,
    unmapping,
)

Result = TypeVar("Result")

ALIGNMENT = 64
KEPT_BYTES = 128 << 20
MEDIUM_BYTES = 8 << 20
HOT_SECONDS = 5.0
_SLAB_BYTES = 1 << 20
_RUN_BYTES = 1 << 16  # of a slab, for blocks up to _RUN_LIMIT of one class; others have slabs
_RUN_LIMIT = 1 << 12
_SMALL_LIMIT = 1 << 16  # up to here blocks are carved from slabs, above each is its own mapping
_MEDIUM_LIMIT = 1 << 20
_UNIT_BYTES = 1 << 18  # sizes of large blocks are multiples of it
_HOT_STREAK = 2
_SLACK_BYTES = 16 << 20
_HOT_PART = 4  # hot blocks that are free take at most this part of all memory


def size_class(nbytes: int) -> int:
    """Rounded size: multiples of 64 up to 512, then four classes per power of two (at most 25 %
    waste).
    """
    if nbytes <= 512:
        return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


class Block(int, Buffer):
    """The address of a block of memory, and its owner: the memory is free when this object goes.

    `+block` is the bare address. Its subclasses say where the memory goes.
    """

    __slots__ = ()
    from_pool = True  # nobody outside this package may write to it


class ForeignBlock(Block):
    """Memory of somebody else, such as a NumPy array, which is kept in `owner`."""

    from_pool = False
    owner: Any

    def __new__(cls, address: int, owner: Any) -> ForeignBlock:
        block = super().__new__(cls, address)
        block.owner = owner
        return block


_first = itemgetter(0)


def _taken_from(free: list[int]) -> Iterator[int]:
    """Takes an address out of the list each time it is asked; IndexError if there is none."""
    return map(list.pop, repeat(free))


def _counted(addresses: Iterator[int], counter: list[None]) -> Iterator[int]:
    """The same addresses; the list becomes longer by one with each."""
    return map(_first, zip(addresses, map(list.append, repeat(counter), repeat(None))))


class SizeClass:
    """Where blocks of one size come from.

    `take()` is a block or raises IndexError; then `grow()` is one.

    Attributes:
      size: bytes of a block.
      free: addresses of free blocks. Blocks that went are themselves in it, as numbers like the
        others: they come here without byte code, so that no signal handler can end their way.
      block: the subclass of Block that gives back to this class.
      take: takes a free block; one call of functions in C.
      grow: makes a block where there is no free one. Raises OutOfMemory.
    """

    __slots__ = ("block", "free", "grow", "size", "take")

    grow: Callable[[], Block]

    def __init__(self, size: int) -> None:
        self.size = size
        self.free: list[int] = []
        self.block = self._block_type()
        self.take: Callable[[], Block] = map(self.block, _taken_from(self.free)).__next__

    def _block_type(self) -> type[Block]:
        members = {"__slots__": (), "__del__": handing_over(self.free.append)}
        return type(f"Block{self.size}", (Block,), members)


class _SmallClass(SizeClass):
    """Blocks carved from slabs.

    Attributes:
      made: how many there are.
      pieces: of slabs of its own, not carved yet.
      piece: bytes of one.
    """

    __slots__ = ("made", "piece", "pieces")

    def __init__(self, size: int, grow: Callable[[_SmallClass], Block]) -> None:
        super().__init__(size)
        self.made = 0
        self.pieces: list[int] = []
        self.piece = size * max(1, _RUN_BYTES // size)
        self.grow = lambda: grow(self)

    def used_bytes(self) -> int:
        return (self.made - len(self.free)) * self.size

    def carve(self, start: int, length: int) -> None:
        make_present(start - ALIGNMENT, length + 2 * ALIGNMENT)
        addresses = range(start, start + length - self.size + 1, self.size)[::-1]
        made = self.made + len(addresses)
        self.made = made  # and no call in between, after which a handler could raise
        self.free.extend(addresses)


class _MappedClass(SizeClass):
    """Blocks with a mapping each.

    Attributes:
      mapped: as long as there are mappings.
      bound: how many free blocks of a medium class stay.
      used_at: when a large block was last freed.
      hot_until: the class is hot until then.
      margin: bytes around a block that are mapped with it.
    """

    __slots__ = (
        "_freed",
        "_return_one",
        "bound",
        "given_back",
        "given_back_at",
        "hot_until",
        "mapped",
        "streak",
        "used_at",
    )
    margin = PAGE_BYTES

    def __init__(
        self,
        size: int,
        grow: Callable[[_MappedClass], Block],
        freed: Callable[[_MappedClass], None],
    ) -> None:
        self._freed = freed
        super().__init__(size)
        self.grow = lambda: grow(self)
        self.mapped: list[None] = []
        uncounted = zip(_taken_from(self.free), map(list.pop, repeat(self.mapped)))
        self._return_one = unmapping(map(_first, uncounted), size, self.margin).__next__
        self.bound = MEDIUM_BYTES // size
        self.used_at = 0.0
        self.given_back = 0  # blocks that went back to the system and were not asked for again
        self.given_back_at = 0.0
        self.streak = 0
        self.hot_until = 0.0

    def _block_type(self) -> type[Block]:
        members = handing_over_then(
            self.free.append, partial(self._freed, self), self._wants_look()
        )
        return type(f"Block{self.size}", (Block,), {"__slots__": (), **members})

    def _wants_look(self) -> Iterator[bool]:
        """Whether blocks may have to be returned, each time one goes, without byte code."""
        return map(gt, map(len, repeat(self.free)), map(attrgetter("bound"), repeat(self)))

    def used_bytes(self) -> int:
        return (len(self.mapped) - len(self.free)) * self.size

    def _fresh(self) -> Iterator[int]:
        """The address of a new mapping, or nothing if the system refuses."""
        return _counted(mapping(self.size, self.margin), self.mapped)

    def map(self) -> Block | None:
        """A block with a new mapping, or None if the system refuses."""
        block = next(map(self.block, self._fresh()), None)
        if block is not None:
            expect_use(block, self.size)
            if self.margin:
                make_present(block - ALIGNMENT, ALIGNMENT)
                make_present(block + self.size, ALIGNMENT)
        return block

    def unmap_one(self, now: float) -> bool:
        """Return a free block to the system; False if there is none."""
        try:
            status = self._return_one()
        except IndexError:
            return False
        check_unmapped(status, self.size)
        self.given_back += 1
        self.given_back_at = now
        return True

    def asked_again(self, now: float) -> bool:
        """A new mapping is needed. Was it wrong, twice in a row, to give the last one back?"""
        if self.given_back and now - self.given_back_at < HOT_SECONDS:
            self.given_back -= 1
            self.streak += 1
            if self.streak >= _HOT_STREAK:
                self.hot_until = now + HOT_SECONDS
                return True
        else:
            self.given_back = self.streak = 0
        return False


class _LargeClass(_MappedClass):
    """Most blocks come and go without byte code, as those of medium classes do: the policy has
    nothing to do while few bytes are free, nor the statistics while no more are in use than before.

    Attributes:
      units: of memory that a block has.
      quick: numbers of units in use, of all large classes, at which `take()` takes a block. It has
        none at others, and `grow` is told of the block.
      take_free: takes a free block in any case.
    """

    __slots__ = ("_clock", "_in_use", "quick", "take_free", "units")
    margin = 0

    def __init__(
        self,
        size: int,
        grow: Callable[[Any], Block],
        freed: Callable[[_MappedClass], None],
        in_use: list[None],
        clock: Callable[[], float],
    ) -> None:
        self.units = min(size // _UNIT_BYTES, sys.maxsize)
        self.quick = range(0)
        self._in_use, self._clock = in_use, clock
        super().__init__(size, grow, freed)
        is_quick = map(contains, map(attrgetter("quick"), repeat(self)), map(len, repeat(in_use)))
        lists: tuple[list[int], ...] = ([], self.free)
        takes = map(list.pop, map(lists.__getitem__, is_quick))
        self.take = map(self.block, self._used(takes)).__next__
        self.take_free = map(self.block, self._used(_taken_from(self.free))).__next__

    def _used(self, addresses: Iterator[int]) -> Iterator[int]:
        units = map(repeat, repeat(None), repeat(self.units))
        return map(_first, zip(addresses, map(list.extend, repeat(self._in_use), units)))

    def _wants_look(self) -> Iterator[bool]:
        """The block that goes is no longer in use, and the class was used now."""
        in_use, attributes = repeat(self._in_use), (repeat(self), repeat("used_at"))
        last = slice(-self.units, None)
        counted = map(list.__delitem__, in_use, repeat(last))
        noted = map(setattr, *attributes, map(call, repeat(self._clock)))
        many_free = map(gt, map(attrgetter("quick.start"), repeat(self)), map(len, in_use))
        return map(itemgetter(2), zip(counted, noted, many_free))

    def _fresh(self) -> Iterator[int]:
        return self._used(super()._fresh())


class MemoryPool:
    """Blocks of memory by size class.

    Args:
      clock: seconds, for "shortly after".
    Attributes:
      limit: most bytes to take from the system; None: as many as it gives.
      make_room: to call when memory is refused, before it is asked for again.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._small: dict[int, _SmallClass] = {}
        self._medium: dict[int, _MappedClass] = {}
        self._large: dict[int, _LargeClass] = {}
        self._slabs: list[int] = []  # not carved yet
        self._runs: list[int] = []
        self._mapped_slabs: list[None] = []  # as long as there are slabs
        self._tolerated = KEPT_BYTES  # free bytes that give no reason to look at the policy again
        self._look_again_at = 0.0  # but then hot blocks above KEPT_BYTES may have cooled down
        self._in_use: list[None] = []  # as long as units of large blocks are in use
        self._most_in_use = 0  # that it ever was
        self._peak = 0
        self.limit: int | None = None
        self.make_room: list[Callable[[], object]] = []

    # -- taking ----------------------------------------------------------------------------------

    def size_class(self, nbytes: int) -> SizeClass:
        """Where blocks of at least `nbytes` bytes come from."""
        size = size_class(nbytes)
        if size <= _SMALL_LIMIT:
            return self._small.get(size) or self._small.setdefault(
                size, _SmallClass(size, self._carve)
            )
        if size <= _MEDIUM_LIMIT:
            return self._medium.get(size) or self._medium.setdefault(
                size, _MappedClass(size, self._map_medium, self._medium_freed)
            )
        return self._large.get(size) or self._large.setdefault(size, self._large_class(size))

    def allocate(self, nbytes: int) -> Block:
        """A free block of at least `nbytes` bytes, 64-byte aligned.

        Raises:
          OutOfMemory: the system or the limit refuses; says what is in use.
        """
        kind = self.size_class(nbytes)
        try:
            return kind.take()
        except IndexError:
            return kind.grow()

    def _large_class(self, size: int) -> _LargeClass:
        return _LargeClass(size, self._take_large, self._large_freed, self._in_use, self._clock)

    def _carve(self, kind: _SmallClass) -> Block:
        """Make a slab, or a run of one, into blocks of a class, and take one of them."""
        while True:
            try:
                # An interrupt here loses addresses of pages that nobody has touched.
                if kind.size > _RUN_LIMIT:
                    kind.carve(self._piece(kind.pieces, kind.piece), kind.piece)
                else:
                    kind.carve(self._piece(self._runs, _RUN_BYTES), _RUN_BYTES)
                self._note_peak()
                return kind.take()
            except IndexError:  # or other threads have taken all of them
                self._from_system(_SLAB_BYTES, self._map_slab)

    def _piece(self, pieces: list[int], each: int) -> int:
        try:
            return pieces.pop()
        except IndexError:
            start = self._slabs.pop()
        last = start + (_SLAB_BYTES // each - 1) * each
        pieces.extend(range(last, start, -each))
        return start

    def _map_slab(self) -> bool | None:
        before = len(self._mapped_slabs)
        self._slabs.extend(_counted(mapping(_SLAB_BYTES, PAGE_BYTES), self._mapped_slabs))
        return len(self._mapped_slabs) > before or None

    def _map_medium(self, kind: _MappedClass) -> Block:
        if kind.asked_again(self._clock()):
            kind.bound = min(2 * kind.bound, self._hot_bytes() // kind.size)
        block = self._from_system(kind.size, kind.map)
        self._note_peak()
        return block

    def _take_large(self, kind: _LargeClass) -> Block:
        """A large block that is new, or that the policy or the statistics want to know of."""
        now = self._clock()
        try:
            block = kind.take_free()
        except IndexError:
            kind.asked_again(now)
            block = self._from_system(kind.size, kind.map)
        else:
            self._tolerated = max(KEPT_BYTES, self._free_bytes() + _SLACK_BYTES)
            if kind.hot_until > now:
                kind.hot_until = now + HOT_SECONDS
        if len(self._in_use) > self._most_in_use:
            self._most_in_use = len(self._in_use)
            self._note_peak()
        self._note_quick()
        return block

    def _from_system(self, nbytes: int, take: Callable[[], Result | None]) -> Result:
        """What `take()` has from the system, which must be `nbytes` more."""
        taken = take() if self._is_allowed(nbytes) else None
        if taken is None:
            for make in self.make_room:
                make()
            gc.collect()
            self.trim()
            taken = take() if self._is_allowed(nbytes) else None
        if taken is None:
            raise OutOfMemory(self._refusal(nbytes))
        return taken

    def _is_allowed(self, nbytes: int) -> bool:
        return self.limit is None or self.bytes_reserved() + nbytes <= self.limit

    def _refusal(self, nbytes: int) -> str:
        by = "the limit set for this process" if self.limit is not None else "the system"
        stats = self.stats()
        return (
            f"cannot allocate {nbytes} bytes for an array\n"
            f"  {by} allows {stats['bytes_limit']} bytes in all; "
            f"{stats['bytes_in_use']} bytes are in use, and "
            f"{stats['bytes_reserved'] - stats['bytes_in_use']} bytes are free in blocks of other "
            "sizes\n"
            "  delete arrays that are not needed any more, donate arguments to jitted functions "
            "(donate_argnums), or raise the limit (jax_cpu_memory_limit, ulimit -v)"
        )

    # -- giving back -----------------------------------------------------------------------------

    def _medium_freed(self, kind: _MappedClass) -> None:
        """Return the free blocks of a medium class beyond its bound."""
        now = self._clock()
        if now > kind.hot_until:
            kind.bound = MEDIUM_BYTES // kind.size
        while len(kind.free) > kind.bound and kind.unmap_one(now):
            pass

    def _large_freed(self, kind: _MappedClass) -> None:
        """Return free large blocks by the policy in this file's docstring."""
        now = self._clock()
        free = self._free_bytes()
        if free <= KEPT_BYTES or (free <= self._tolerated and now <= self._look_again_at):
            return
        kinds = sorted(self._large.copy().values(), key=lambda k: k.used_at)
        self._evict([k for k in kinds if k.hot_until <= now], KEPT_BYTES, now)
        self._evict([k for k in kinds if k.hot_until > now], self._hot_bytes(), now)
        self._tolerated = max(KEPT_BYTES, self._free_bytes() + _SLACK_BYTES)
        self._look_again_at = now + HOT_SECONDS
        self._note_quick()

    def _note_quick(self) -> None:
        """Which blocks come and go without a look, now that mappings have changed, or the peak."""
        kinds = self._large.copy().values()
        mapped = sum([len(kind.mapped) * kind.units for kind in kinds])
        fewest = max(0, mapped - KEPT_BYTES // _UNIT_BYTES)
        for kind in kinds:
            kind.quick = range(fewest, self._most_in_use - kind.units + 1)

    def _evict(self, kinds: Iterable[_MappedClass], allowed: int, now: float) -> int:
        """Return free large blocks of these classes, in order, until at most `allowed` bytes of
        all large blocks are free; returns how many bytes that were."""
        count = 0
        for kind in kinds:
            while self._free_bytes() > allowed and kind.unmap_one(now):
                count += kind.size
        return count

    def trim(self) -> int:
        """Return all free blocks but small ones to the system; returns how many bytes that were."""
        now = self._clock()
        count = self._evict(self._large.copy().values(), 0, now)
        for kind in self._medium.copy().values():
            while kind.unmap_one(now):
                count += kind.size
        return count

    # -- counting --------------------------------------------------------------------------------

    def bytes_reserved(self) -> int:
        """Bytes taken from the system."""
        mapped = (*self._medium.copy().values(), *self._large.copy().values())
        slabs = len(self._mapped_slabs) * _SLAB_BYTES
        return slabs + sum([len(kind.mapped) * kind.size for kind in mapped])

    def stats(self) -> dict[str, int]:
        """bytes_in_use: of blocks that have an owner, rounded up to size classes.
        peak_bytes_in_use: the largest it was; blocks up to 1 MiB are counted when memory comes from
        the system, when large blocks take more than ever, and here, so that small and medium
        blocks that were free then may be missing. bytes_reserved: taken from the system.
        bytes_limit: what that may become."""
        self._note_peak()
        return {
            "bytes_in_use": self._bytes_in_use(),
            "peak_bytes_in_use": self._peak,
            "bytes_reserved": self.bytes_reserved(),
            "bytes_limit": self._bytes_limit(),
        }

    def _bytes_limit(self) -> int:
        system = memory_limit()
        return system if self.limit is None else min(system, self.limit)

    def _bytes_in_use(self) -> int:
        tables: tuple[dict[int, Any], ...] = (self._small, self._medium, self._large)
        return sum([kind.used_bytes() for table in tables for kind in table.copy().values()])

    def _free_bytes(self) -> int:
        """Of large blocks."""
        return sum([len(kind.free) * kind.size for kind in self._large.copy().values()])

    def _hot_bytes(self) -> int:
        return max(KEPT_BYTES, self._bytes_limit() // _HOT_PART)

    def _note_peak(self) -> None:
        self._peak = max(self._peak, self._bytes_in_use())


POOL = MemoryPool()
