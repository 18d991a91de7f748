"""Meetings that members come to early and leave late: who is ahead goes on with other work while
others have not come, or still read its memory.

A member *comes* when its operands are there, and does something else. It *meets* the others when it
needs their operands: only now it waits, for those that have not come. When it has read them it is
*ready* to go, and before its own operands' memory has other values it *parts*: it waits for those
that still read. Between coming and meeting, and between being ready and parting, it does nothing
that could fail, so that either all members meet or none, as in `meetings`.

A participant that has come and goes on does not stand still. So the last one to come cannot take it
that all others do: who waits says so at the place, which counts them for one meeting. The last one
closes the count, and then as many less stand still; who looks at a closed count waits for the last
one's next step only, and is counted nowhere.

Where members are in other processes, the engine is called when all that are here meet, and nobody
comes early.

API (the others are as in `meetings`; `state` is what this member keeps, with
its table, zeros at first)
  pyjax_come(ptr session, ptr place, i64 rank, i64 size, ptr state)
        this member has come; its table is in `state`
  pyjax_meet_later(ptr session, ptr place, i64 rank, i64 size, ptr state, i64 participant,
                   i64 number)
        i32: 0 when all members have come, this one too; else the run has ended, as this says
  pyjax_ready(ptr place, i64 size, ptr state)
        this member reads nothing any more
  pyjax_part(ptr session, ptr place, ptr state)
        all members are ready
"""

from __future__ import annotations

from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.meeting_layout import (
    CAME,
    EPOCH,
    HERE,
    OWN_TABLE,
    READY,
    STILL,
    TABLES,
    WAITING,
    WORD,
)
from xla_backend.targets.cpu.routines.meeting_words import (
    CAME_BITS,
    exchange,
    is_over,
    load_word,
    members_here,
    word_at,
)
from xla_backend.targets.cpu.routines.meetings import (
    come_again,
    emit_waiting,
    wait_noted,
    wait_to_the_end,
)
from xla_backend.targets.cpu.routines.registry import register_group

# The count of who waits begins above the bits that count them.
_MEETING_BITS = 12
# In place of the word when a member came: it has not.
_NOT_COME = -1


def register() -> None:
    """Declares the functions of members that come early and leave late."""
    names = ("pyjax_come", "pyjax_meet_later", "pyjax_ready", "pyjax_part")
    register_group("early_meetings", names, _emit)


def _emit(module: ModuleWriter) -> None:
    emit_waiting(module)
    _close(module)
    _come(module)
    _stand_still_here(module)
    _meet_later(module)
    _ready(module)
    _part(module)


def _exchange_waiting(w: FunctionWriter, old: str, new: str) -> str:
    """Whether the count of who waits was still the old one, and is the new one now."""
    count = word_at(w, "%place", WAITING)
    both = w.value(f"cmpxchg ptr {count}, i32 {old}, i32 {new} seq_cst seq_cst")
    return w.value(f"extractvalue {{ i32, i1 }} {both}, 1")


def _close(module: ModuleWriter) -> None:
    """void close(ptr session, ptr place): the last one has come: who waits does not stand still."""
    parameters = [("ptr", "session"), ("ptr", "place")]
    w = module.function("pyjax.close_meeting", parameters, internal=True)
    again, closed = w.new_label("again"), w.new_label("closed")
    w.br(again)
    w.label(again)
    count = load_word(w, "%place", WAITING)
    following = w.op("add", "i32", w.op("or", "i32", count, str(CAME_BITS)), "1")
    w.cond_br(_exchange_waiting(w, count, following), closed, again)
    w.label(closed)
    waiting = w.op("and", "i32", count, str(CAME_BITS))
    w.value(f"atomicrmw sub ptr {word_at(w, '%session', STILL)}, i32 {waiting} seq_cst")
    w.ret()


def _come(module: ModuleWriter) -> None:
    parameters = [("ptr", "session"), ("ptr", "place"), ("i64", "rank"), ("i64", "size")]
    w = module.function("pyjax_come", [*parameters, ("ptr", "state")])
    here_only = w.cmp("eq", "i32", w.load("i32", word_at(w, "%place", HERE)), "0")
    came = w.if_else(here_only, ["i32"], lambda: [_arrive(w)], lambda: [str(_NOT_COME)])
    w.store("i32", came[0], word_at(w, "%state", CAME))
    w.ret()


def _arrive(w: FunctionWriter) -> str:
    """What the word is now that this member has come; 0 for the last one, which lets all go."""
    w.store("i32", _meetings_before(w), word_at(w, "%state", EPOCH))
    own = w.gep("i8", "%state", OWN_TABLE)
    w.store("ptr", own, w.gep("ptr", w.gep("i8", "%place", TABLES), "%rank"))
    others = w.op("sub", "i32", members_here(w), "1")
    again, last, middle, let_go, done = (
        w.new_label(hint) for hint in ("again", "last", "middle", "go", "done")
    )
    w.br(again)
    w.label(again)
    word = load_word(w, "%place", WORD)
    missing = w.cmp("ne", "i32", w.op("and", "i32", word, str(CAME_BITS)), others)
    w.cond_br(missing, middle, last)
    w.label(middle)
    more = w.op("add", "i32", word, "1")
    w.cond_br(exchange(w, word, more), done, again)
    w.label(last)
    # Before they go: they may stand still again at once. If one gives up now, the run has ended,
    # and who stands still is of no interest.
    w.call("pyjax.close_meeting", "void", [("ptr", "%session"), ("ptr", "%place")])
    following = w.op("add", "i32", w.op("or", "i32", word, str(CAME_BITS)), "1")
    w.cond_br(exchange(w, word, following), let_go, again)
    w.label(let_go)
    w.call("pyjax.wake_members", "void", [("ptr", "%place")])
    w.br(done)
    w.label(done)
    return w.phi("i32", [(more, middle), ("0", let_go)])


def _meetings_before(w: FunctionWriter) -> str:
    return w.op("lshr", "i32", load_word(w, "%place", WAITING), str(_MEETING_BITS))


def _stand_still_here(module: ModuleWriter) -> None:
    """void stand_still_here(ptr session, ptr place, i32 epoch): one that waits for the meeting that
    so many came before, unless its last member is here."""
    parameters = [("ptr", "session"), ("ptr", "place"), ("i32", "epoch")]
    w = module.function("pyjax.stand_still_here", parameters, internal=True)
    again, open_, waits, out = (w.new_label(hint) for hint in ("again", "open", "waits", "out"))
    w.br(again)
    w.label(again)
    count = load_word(w, "%place", WAITING)
    now = w.op("lshr", "i32", count, str(_MEETING_BITS))
    w.cond_br(w.cmp("eq", "i32", now, "%epoch"), open_, out)
    w.label(open_)
    w.cond_br(_exchange_waiting(w, count, w.op("add", "i32", count, "1")), waits, again)
    w.label(waits)
    w.call("pyjax.stand_still", "void", [("ptr", "%session")])
    w.br(out)
    w.label(out)
    w.ret()


def _meet_later(module: ModuleWriter) -> None:
    parameters = [
        ("ptr", "session"), ("ptr", "place"), ("i64", "rank"), ("i64", "size"), ("ptr", "state"),
        ("i64", "participant"), ("i64", "number"),
    ]  # fmt: skip
    w = module.function("pyjax_meet_later", parameters, "i32")
    came = w.load("i32", word_at(w, "%state", CAME))

    def with_others() -> list[str]:
        own = w.gep("i8", "%state", OWN_TABLE)
        names = [own if name == "state" else f"%{name}" for _, name in parameters]
        arguments = [(type, value) for (type, _), value in zip(parameters, names)]
        return [w.call("pyjax_meet", "i32", arguments)]

    def here() -> list[str]:
        last = w.cmp("eq", "i32", came, "0")
        return w.if_else(last, ["i32"], lambda: ["0"], unless_over)

    def unless_over() -> list[str]:
        return w.if_else(is_over(w, came), ["i32"], lambda: ["0"], wait)

    def wait() -> list[str]:
        epoch = w.load("i32", word_at(w, "%state", EPOCH))
        here = [("ptr", "%session"), ("ptr", "%place"), ("i32", epoch)]
        still = lambda: w.call("pyjax.stand_still_here", "void", here)
        return [wait_noted(w, came, still)]

    not_come = w.cmp("eq", "i32", came, str(_NOT_COME))
    w.ret("i32", *w.if_else(not_come, ["i32"], with_others, here))


def _ready(module: ModuleWriter) -> None:
    parameters = [("ptr", "place"), ("i64", "size"), ("ptr", "state")]
    w = module.function("pyjax_ready", parameters)
    w.store("i32", come_again(w), word_at(w, "%state", READY))
    w.ret()


def _part(module: ModuleWriter) -> None:
    parameters = [("ptr", "session"), ("ptr", "place"), ("ptr", "state")]
    w = module.function("pyjax_part", parameters)
    came = w.load("i32", word_at(w, "%state", READY))
    with w.if_(w.cmp("ne", "i32", came, "0")):
        wait_to_the_end(w, came)
    w.ret()
