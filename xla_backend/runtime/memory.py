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

If the system (or `limit`) refuses memory, garbage is collected, everything free goes back, and it
is asked once more.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from xla_backend.finalizers import handing_over
from xla_backend.forks import LEAF, take_for_forks
from xla_backend.runtime.pages import map_pages, memory_limit, unmap_pages

ALIGNMENT = 64
KEPT_BYTES = 128 << 20
MEDIUM_BYTES = 8 << 20
HOT_SECONDS = 5.0
_SLAB_BYTES = 1 << 20
_RUN_BYTES = 1 << 16  # blocks up to _RUN_LIMIT are carved from runs of a slab, others from a slab
_RUN_LIMIT = 1 << 12
_SMALL_LIMIT = 1 << 16  # up to here blocks are carved from slabs, above each is its own mapping
_MEDIUM_LIMIT = 1 << 20
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


class Block(int):
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


def _block_type(size: int, give_back: Any) -> type[Block]:
    return type(f"Block{size}", (Block,), {"__slots__": (), "__del__": give_back})


class SizeClass:
    """Where blocks of one size come from.

    `block(free.pop())` is a block; if `free` is empty, `grow()` is one. `list.pop` and
    `list.append` are atomic, so that this way takes no lock.

    Attributes:
      size: bytes of a block.
      free: addresses of free blocks; of a large class it is always empty. Small blocks that went
        are themselves in it, as numbers like the others: they come here without byte code, so that
        no signal handler can end their way half-way.
      block: the subclass of Block that gives back to this class.
      grow: a block that did not come from `free`. Raises MemoryError.
      made: how many blocks there are, of a class that is not large.
    """

    __slots__ = ("block", "free", "grow", "made", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.free: list[int] = []
        self.block: type[Block] = Block
        self.grow: Callable[[], Block]
        self.made = 0


class _MappedClass(SizeClass):
    """Blocks with a mapping each. What is here is changed under the pool's lock only.

    Attributes:
      kept: addresses of free large blocks.
      bound: how many free blocks of a medium class stay.
      hot_until: the class is hot until then.
    """

    __slots__ = ("bound", "given_back", "given_back_at", "hot_until", "kept", "streak", "used_at")

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.kept: list[int] = []
        self.bound = MEDIUM_BYTES // size
        self.used_at = 0.0
        self.given_back = 0  # blocks that went back to the system and were not asked for again
        self.given_back_at = 0.0
        self.streak = 0
        self.hot_until = 0.0

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


class MemoryPool:
    """Blocks of memory by size class.

    Args:
      clock: seconds, for "shortly after".
    Attributes:
      limit: most bytes to take from the system; None: as many as it gives.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._classes: dict[int, SizeClass] = {}
        self._medium: list[_MappedClass] = []
        self._large: list[_MappedClass] = []
        # Blocks are freed by finalizers, which may run while this very thread holds the lock.
        # Every section is such that this does no harm: counters change in single steps.
        self._lock = threading.RLock()
        self._runs: list[int] = []
        self._slab_bytes = 0
        self._medium_bytes = 0
        self._large_bytes = 0
        self._free_bytes = 0  # of free large blocks
        self._tolerated = KEPT_BYTES  # free bytes that give no reason to look at the policy again
        self._look_again_at = 0.0  # but then hot blocks above KEPT_BYTES may have cooled down
        self._largest_use = 0  # of large blocks
        self._peak = 0
        self.limit: int | None = None

    # -- taking ----------------------------------------------------------------------------------

    def size_class(self, nbytes: int) -> SizeClass:
        """Where blocks of at least `nbytes` bytes come from."""
        size = size_class(nbytes)
        found = self._classes.get(size)
        if found is None:
            with self._lock:
                found = self._classes.get(size)
                if found is None:
                    make = self._large_class
                    if size <= _MEDIUM_LIMIT:
                        make = self._small_class if size <= _SMALL_LIMIT else self._medium_class
                    found = self._classes[size] = make(size)
        return found

    def allocate(self, nbytes: int) -> Block:
        """A free block of at least `nbytes` bytes, 64-byte aligned.

        Raises:
          MemoryError: the system or the limit refuses; says what is in use.
        """
        kind = self.size_class(nbytes)
        try:
            return kind.block(kind.free.pop())
        except IndexError:
            return kind.grow()

    def _small_class(self, size: int) -> SizeClass:
        kind = SizeClass(size)
        kind.block = _block_type(size, handing_over(kind.free.append))
        kind.grow = lambda: self._carve(kind)
        return kind

    def _carve(self, kind: SizeClass) -> Block:
        """Make a slab, or a run of one, into blocks of a class, and take one of them."""
        if kind.size > _RUN_LIMIT:
            start, length = self._slab(), _SLAB_BYTES
        else:
            length = _RUN_BYTES
            try:
                start = self._runs.pop()
            except IndexError:
                start = self._slab()
                self._runs.extend(range(start + _SLAB_BYTES - length, start, -length))
        count = length // kind.size
        with self._lock:
            kind.made += count
            self._note_peak()
        kind.free.extend(range(start + (count - 1) * kind.size, start, -kind.size))
        return kind.block(start)

    def _slab(self) -> int:
        address = self._map(_SLAB_BYTES)
        with self._lock:
            self._slab_bytes += _SLAB_BYTES
        return address

    def _medium_class(self, size: int) -> SizeClass:
        kind = _MappedClass(size)

        def give_back(
            block: Block,
            push: Callable[[int], None] = kind.free.append,
            free: list[int] = kind.free,
            too_many: Callable[..., None] = self._too_many,
        ) -> None:
            push(+block)
            if len(free) > kind.bound:
                too_many(kind)

        kind.block = _block_type(size, give_back)
        kind.grow = lambda: self._map_medium(kind)
        self._medium.append(kind)
        return kind

    def _map_medium(self, kind: _MappedClass) -> Block:
        now = self._clock()
        with self._lock:
            if kind.asked_again(now):
                kind.bound = min(2 * kind.bound, self._hot_bytes() // kind.size)
        address = self._map(kind.size)
        with self._lock:
            self._medium_bytes += kind.size
            kind.made += 1
            self._note_peak()
        return kind.block(address)

    def _large_class(self, size: int) -> SizeClass:
        kind = _MappedClass(size)

        def give_back(block: Block, free: Callable[..., None] = self._free_large) -> None:
            free(kind, +block)

        kind.block = _block_type(size, give_back)
        kind.grow = lambda: self._take_large(kind)
        self._large.append(kind)
        return kind

    def _take_large(self, kind: _MappedClass) -> Block:
        now = self._clock()
        with self._lock:
            kind.used_at = now
            try:
                address = kind.kept.pop()
            except IndexError:
                kind.asked_again(now)
            else:
                self._free_bytes -= kind.size
                self._tolerated = max(KEPT_BYTES, self._free_bytes + _SLACK_BYTES)
                if kind.hot_until > now:
                    kind.hot_until = now + HOT_SECONDS
                self._note_use()
                return kind.block(address)
        address = self._map(kind.size)
        with self._lock:
            self._large_bytes += kind.size
            self._note_use()
        return kind.block(address)

    def _map(self, nbytes: int) -> int:
        address = self._try_to_map(nbytes)
        if address is None:
            gc.collect()
            self.trim()
            address = self._try_to_map(nbytes)
        if address is None:
            raise MemoryError(self._refusal(nbytes))
        return address

    def _try_to_map(self, nbytes: int) -> int | None:
        if self.limit is not None and self.bytes_reserved() + nbytes > self.limit:
            return None
        return map_pages(nbytes)

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

    def _free_large(self, kind: _MappedClass, address: int) -> None:
        time = self._clock()
        with self._lock:
            kind.used_at = time
            self._free_bytes += kind.size
            kind.kept.append(address)
            crowded = self._free_bytes > self._tolerated or (
                self._free_bytes > KEPT_BYTES and time > self._look_again_at
            )
        if crowded:
            self._give_back(time)

    def _give_back(self, now: float) -> None:
        """Return free blocks by the policy in this file's docstring."""
        with self._lock:
            kinds = sorted([k for k in self._large if k.kept], key=lambda k: k.used_at)
            hot = [k for k in kinds if k.hot_until > now]
            victims = self._evict([k for k in kinds if k.hot_until <= now], KEPT_BYTES, now)
            victims += self._evict(hot, self._hot_bytes(), now)
            self._tolerated = max(KEPT_BYTES, self._free_bytes + _SLACK_BYTES)
            self._look_again_at = now + HOT_SECONDS
        self._unmap(victims)

    def _evict(self, kinds: list[_MappedClass], allowed: int, now: float) -> list[tuple[int, int]]:
        """Take free blocks of these classes, in order, until at most `allowed` bytes are free."""
        victims = []
        for kind in kinds:
            while kind.kept and self._free_bytes > allowed:
                kind.given_back += 1
                kind.given_back_at = now
                self._free_bytes -= kind.size
                victims.append((kind.kept.pop(), kind.size))
        return victims

    def _too_many(self, kind: _MappedClass) -> None:
        """Return the free blocks of a medium class beyond its bound."""
        time = self._clock()
        with self._lock:
            if time > kind.hot_until:
                kind.bound = MEDIUM_BYTES // kind.size
            victims = self._take_medium(kind, kind.bound, time)
        self._unmap(victims)

    def _take_medium(self, kind: _MappedClass, bound: int, now: float) -> list[tuple[int, int]]:
        victims = []
        while len(kind.free) > bound:
            try:
                victims.append((kind.free.pop(), kind.size))
            except IndexError:
                break  # others take from the list without a lock
            kind.made -= 1
            kind.given_back += 1
            kind.given_back_at = now
        return victims

    def _unmap(self, victims: list[tuple[int, int]]) -> None:
        for address, size in victims:
            unmap_pages(address, size)
            with self._lock:
                if size > _MEDIUM_LIMIT:
                    self._large_bytes -= size
                else:
                    self._medium_bytes -= size

    def trim(self) -> int:
        """Return all free blocks but small ones to the system; returns how many bytes that were."""
        now = self._clock()
        with self._lock:
            victims = self._evict(self._large, 0, now)
            for kind in self._medium:
                victims += self._take_medium(kind, 0, now)
        self._unmap(victims)
        return sum(size for _, size in victims)

    # -- counting --------------------------------------------------------------------------------

    def bytes_reserved(self) -> int:
        """Bytes taken from the system."""
        return self._slab_bytes + self._medium_bytes + self._large_bytes

    def stats(self) -> dict[str, int]:
        """bytes_in_use: of blocks that have an owner, rounded up to size classes.
        peak_bytes_in_use: the largest it was; blocks up to 1 MiB are counted when memory comes from
        the system, when large blocks take more than ever, and here, so that small and medium
        blocks that were free then may be missing. bytes_reserved: taken from the system.
        bytes_limit: what that may become."""
        with self._lock:
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
        others = sum((k.made - len(k.free)) * k.size for k in list(self._classes.values()))
        return others + self._large_bytes - self._free_bytes

    def _hot_bytes(self) -> int:
        return max(KEPT_BYTES, self._bytes_limit() // _HOT_PART)

    def _note_use(self) -> None:
        if self._large_bytes - self._free_bytes > self._largest_use:
            self._largest_use = self._large_bytes - self._free_bytes
            self._note_peak()

    def _note_peak(self) -> None:
        self._peak = max(self._peak, self._bytes_in_use())

    # -- fork ------------------------------------------------------------------------------------

    def survive_forks(self) -> None:
        """Fork only while no thread changes this pool, so that the child's copy is whole. (The
        memory itself is private to each process.)"""
        take_for_forks(self._lock, LEAF)


POOL = MemoryPool()
POOL.survive_forks()
