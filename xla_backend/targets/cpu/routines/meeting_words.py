"""The words of a session and of its places, as functions of native code read and change them; see
`meetings` for what they mean."""

from __future__ import annotations

from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.meeting_layout import HERE, WORD

# The bits of a place's word that count who came.
CAME_BITS = (1 << 12) - 1


def word_at(w: FunctionWriter, base: str, place: int) -> str:
    return w.gep("i8", base, place)


def load_word(w: FunctionWriter, base: str, place: int) -> str:
    return w.value(f"load atomic i32, ptr {word_at(w, base, place)} seq_cst, align 4")


def store_word(w: FunctionWriter, base: str, place: int, value: str) -> None:
    w.line(f"store atomic i32 {value}, ptr {word_at(w, base, place)} seq_cst, align 4")


def add_to_word(w: FunctionWriter, base: str, place: int, count: str) -> str:
    """The sum."""
    before = w.value(f"atomicrmw add ptr {word_at(w, base, place)}, i32 {count} seq_cst")
    return w.op("add", "i32", before, count)


def exchange(w: FunctionWriter, old: str, new: str) -> str:
    """Whether the word of the place was still the old one, and is the new one now."""
    word = word_at(w, "%place", WORD)
    exchange = w.value(f"cmpxchg ptr {word}, i32 {old}, i32 {new} seq_cst seq_cst")
    return w.value(f"extractvalue {{ i32, i1 }} {exchange}, 1")


def is_over(w: FunctionWriter, came: str) -> str:
    """Whether all have come since the word was this."""
    word = load_word(w, "%place", WORD)
    return w.cmp("ugt", "i32", w.op("xor", "i32", word, came), str(CAME_BITS))


def members_here(w: FunctionWriter) -> str:
    """How many members are in this process, i32."""
    here = w.load("i32", word_at(w, "%place", HERE))
    all_are = w.cmp("eq", "i32", here, "0")
    return w.select(all_are, "i32", w.cast("trunc", "i64", "%size", "i32"), here)
