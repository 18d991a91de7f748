"""Where participants of one run meet: barriers of a group, on memory that all of them see.

A *session* is the memory of one run, zero but for its header. It has a *place* for each group of
each collective, where its members come together, and each shows the others the address of a table:
of its operands and results. These they may use until they have met again.

Nobody waits for ever. A participant that stands still, because it waits or has ended, is counted;
when all of them do, those who wait are told that their partners never come. One that fails ends the
run for all others, who notice where they meet: who gives up takes back that it came, so that either
all members have met or none. Once they have, they do nothing that could fail until they meet again,
and there nobody gives up: the others may be reading its memory.

Members of a group may be in other processes. Then those that are here meet, the last one to come
calls the *engine* of the session, which puts tables of the absent members beside those of the
others, and all wait for that as they wait to meet again. A place says how many members are here,
and who they are; a place of zeros is one whose members all are.

API
  pyjax_meet(ptr session, ptr place, i64 rank, i64 size, ptr table, i64 participant, i64 number)
        i32: 0 when all `size` members of the group are there; else the run has ended, as this says.
        `number`, from 1: of the meeting, for messages.
  pyjax_meet_again(ptr session, ptr place, i64 size)
        the members that have met are all here again
  pyjax_share(ptr place, i64 rank, i64 size, ptr row)
        how members that are here share work: `row` gets, i64, which of them this is, how many they
        are, and the rank of the first
  pyjax_leave(ptr session, i64 status)
        a participant has ended; a status that is not 0 ends the run
How a session is laid out is in `meeting_layout`.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.types import const
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.meeting_layout import (
    ANOTHER_FAILED,
    ENDED,
    ENGINE,
    ENGINE_FAILED,
    FIRST,
    HEADER_BYTES,
    HERE,
    LINE,
    NEVER_COME,
    PARTICIPANTS,
    SLEEPERS,
    SPINS,
    STATUS,
    STILL,
    TABLES,
    WORD,
)
from xla_backend.targets.cpu.routines.meeting_words import (
    CAME_BITS,
    add_to_word,
    exchange,
    is_over,
    load_word,
    members_here,
    store_word,
    word_at,
)
from xla_backend.targets.cpu.routines.native_threads import EVERYBODY, Sleep, emit_pause, sleep_of
from xla_backend.targets.cpu.routines.registry import register_group

# Nanoseconds of a sleep after which a waiter looks whether the run goes on.
_NAP = 20_000_000


def register() -> None:
    """Declares the functions that participants meet by."""
    names = ("pyjax_meet", "pyjax_meet_again", "pyjax_share", "pyjax_leave")
    register_group("meetings", names, _emit)


def _emit(module: ModuleWriter) -> None:
    emit_waiting(module)
    _leave(module)
    _meet_here(module)
    _call_engine(module)
    _meet(module)
    _meet_again(module)
    _share(module)


def emit_waiting(module: ModuleWriter) -> None:
    """What all who meet are made of: to come, to wait, to wake the others and to give up."""
    linux = "linux" in module.target.triple
    sleep = sleep_of(module, module.target, linux)
    module.add(f"@pyjax.meeting_nap = internal constant [2 x i64] [i64 0, i64 {_NAP}]")
    _stand_still(module)
    _arrive(module)
    _spin(module)
    _nap(module, sleep)
    _wake(module, sleep)
    _give_up(module)
    _wait(module)


def has_ended(w: FunctionWriter, session: str) -> str:
    """Why the run has ended, i32; 0: it has not."""
    return load_word(w, session, ENDED)


def _end(w: FunctionWriter, why: str) -> None:
    """The run ends, if it has not yet."""
    w.value(f"cmpxchg ptr {word_at(w, '%session', ENDED)}, i32 0, i32 {why} seq_cst seq_cst")


def _stand_still(module: ModuleWriter) -> None:
    """void stand_still(ptr session): one participant more that does not go on by itself. It is the
    last one that sees that all of them are."""
    w = module.function("pyjax.stand_still", [("ptr", "session")], internal=True)
    still = add_to_word(w, "%session", STILL, "1")
    with w.if_(w.cmp("eq", "i32", still, load_word(w, "%session", PARTICIPANTS))):
        _end(w, str(NEVER_COME))
    w.ret()


def _leave(module: ModuleWriter) -> None:
    w = module.function("pyjax_leave", [("ptr", "session"), ("i64", "status")])
    with w.if_(w.cmp("ne", "i64", "%status", "0")):
        _end(w, str(ANOTHER_FAILED))
    w.call("pyjax.stand_still", "void", [("ptr", "%session")])
    w.ret()


def _arrive(module: ModuleWriter) -> None:
    """i32 arrive(ptr place, i32 members, ptr still): come to a place. What its word is then, if
    others are missing, and 0 for the last one, which lets them go: `still`, if there is one, has so
    many fewer by then."""
    parameters = [("ptr", "place"), ("i32", "members"), ("ptr", "still")]
    w = module.function("pyjax.arrive", parameters, "i32", internal=True)
    counted = w.cmp("ne", "ptr", "%still", "null")
    others = w.op("sub", "i32", "%members", "1")

    def count(opcode: str) -> None:
        with w.if_(counted):
            w.value(f"atomicrmw {opcode} ptr %still, i32 {others} seq_cst")

    again, last, middle, let_go, kept, out = (
        w.new_label(hint) for hint in ("again", "last", "middle", "go", "kept", "out")
    )
    w.br(again)
    w.label(again)
    word = load_word(w, "%place", WORD)
    came = w.op("and", "i32", word, str(CAME_BITS))
    w.cond_br(w.cmp("eq", "i32", came, others), last, middle)
    w.label(middle)
    more = w.op("add", "i32", word, "1")
    w.cond_br(exchange(w, word, more), out, again)
    w.label(last)
    count("sub")  # before they go: they may stand still again at once
    following = w.op("add", "i32", w.op("or", "i32", word, str(CAME_BITS)), "1")
    w.cond_br(exchange(w, word, following), let_go, kept)
    w.label(kept)
    count("add")
    w.br(again)
    w.label(let_go)
    w.ret("i32", "0")
    w.label(out)
    w.ret("i32", more)


def _spin(module: ModuleWriter) -> None:
    """void spin(ptr session, ptr place, i32 came): for a while, or until all have come."""
    parameters = [("ptr", "session"), ("ptr", "place"), ("i32", "came")]
    w = module.function("pyjax.spin", parameters, internal=True)

    def waits(state: list[str]) -> str:
        early = w.cmp("ult", "i32", state[0], load_word(w, "%session", SPINS))
        return w.op("and", "i1", early, w.not_("i1", is_over(w, "%came")))

    def pause(state: list[str]) -> list[str]:
        emit_pause(w)
        return [w.op("add", "i32", state[0], "1")]

    w.while_([("i32", "0")], waits, pause)
    w.ret()


def _nap(module: ModuleWriter, sleep: Sleep) -> None:
    """void nap(ptr place, i32 came): sleep a little, until all have come at most."""
    w = module.function("pyjax.nap", [("ptr", "place"), ("i32", "came")], internal=True)
    add_to_word(w, "%place", SLEEPERS, "1")
    word = load_word(w, "%place", WORD)
    same = w.cmp("ule", "i32", w.op("xor", "i32", word, "%came"), str(CAME_BITS))
    with w.if_(same):
        sleep.wait(w, word_at(w, "%place", WORD), word, "@pyjax.meeting_nap")
    add_to_word(w, "%place", SLEEPERS, const("i32", -1))
    w.ret()


def _wake(module: ModuleWriter, sleep: Sleep) -> None:
    """void wake(ptr place): those that sleep there."""
    w = module.function("pyjax.wake_members", [("ptr", "place")], internal=True)
    with w.if_(w.cmp("ne", "i32", load_word(w, "%place", SLEEPERS), "0")):
        sleep.wake(w, word_at(w, "%place", WORD), EVERYBODY)
    w.ret()


def _give_up(module: ModuleWriter) -> None:
    """i1 give_up(ptr place, i32 came): take back that one came; false: all had come before."""
    parameters = [("ptr", "place"), ("i32", "came")]
    w = module.function("pyjax.give_up", parameters, "i1", internal=True)
    again, fewer, done, late = (w.new_label(hint) for hint in ("again", "fewer", "done", "late"))
    w.br(again)
    w.label(again)
    word = load_word(w, "%place", WORD)
    same = w.cmp("ule", "i32", w.op("xor", "i32", word, "%came"), str(CAME_BITS))
    w.cond_br(same, fewer, late)
    w.label(fewer)
    w.cond_br(exchange(w, word, w.op("sub", "i32", word, "1")), done, again)
    w.label(done)
    w.ret("i1", "true")
    w.label(late)
    w.ret("i1", "false")


def _wait(module: ModuleWriter) -> None:
    """i32 wait(ptr session, ptr place, i32 came): 0 when the last member has come, else why this
    one has given up."""
    parameters = [("ptr", "session"), ("ptr", "place"), ("i32", "came")]
    w = module.function("pyjax.wait_for_members", parameters, "i32", internal=True)
    place = [("ptr", "%place"), ("i32", "%came")]
    w.call("pyjax.spin", "void", [("ptr", "%session"), *place])

    def waits(state: list[str]) -> str:
        goes_on = w.cmp("eq", "i32", state[0], "0")
        return w.op("and", "i1", goes_on, w.not_("i1", is_over(w, "%came")))

    def nap(_: list[str]) -> list[str]:
        w.call("pyjax.nap", "void", place)
        # A signal's handler that raises ends this participant, and so the run.
        signal = w.call("pyjax_poll", "i32")
        ended = load_word(w, "%session", ENDED)
        return [w.select(w.cmp("ne", "i32", signal, "0"), "i32", signal, ended)]

    (status,) = w.while_([("i32", load_word(w, "%session", ENDED))], waits, nap)
    with w.if_(w.cmp("ne", "i32", status, "0")):
        late = w.not_("i1", w.call("pyjax.give_up", "i1", place))
        with w.if_(late):
            w.ret("i32", "0")
            w.label(w.new_label("behind"))
    w.ret("i32", status)


_MEETING = (
    ("ptr", "session"), ("ptr", "place"), ("i64", "rank"), ("i64", "size"), ("ptr", "table"),
    ("i64", "participant"), ("i64", "number"),
)  # fmt: skip


def wait_noted(w: FunctionWriter, came: str, stand_still: Callable[[], object]) -> str:
    """Wait as a participant that messages tell the meeting of: 0 when all members have come, else
    why this one has given up. `stand_still` counts it as one that does not go on by itself."""
    mine = w.gep("i32", w.gep("i8", "%session", HEADER_BYTES), "%participant")
    store_word(w, mine, 0, w.cast("trunc", "i64", "%number", "i32"))
    stand_still()
    arguments = [("ptr", "%session"), ("ptr", "%place"), ("i32", came)]
    status = w.call("pyjax.wait_for_members", "i32", arguments)
    # Who has given up stays where it was seen last.
    with w.if_(w.cmp("eq", "i32", status, "0")):
        store_word(w, mine, 0, "0")
    return status


def _meet_here(module: ModuleWriter) -> None:
    """i32 meet_here(...): as pyjax_meet, of the members that are in this process; -1 for the last
    one to come. Only members of other processes may still be missing then."""
    w = module.function("pyjax.meet_here", list(_MEETING), "i32", internal=True)
    ended = load_word(w, "%session", ENDED)

    def come() -> list[str]:
        tables = w.gep("i8", "%place", TABLES)
        w.store("ptr", "%table", w.gep("ptr", tables, "%rank"))
        still = ("ptr", word_at(w, "%session", STILL))
        members = ("i32", members_here(w))
        came = w.call("pyjax.arrive", "i32", [("ptr", "%place"), members, still])
        return w.if_else(w.cmp("eq", "i32", came, "0"), ["i32"], let_go, lambda: wait(came))

    def let_go() -> list[str]:
        w.call("pyjax.wake_members", "void", [("ptr", "%place")])
        return ["-1"]

    def wait(came: str) -> list[str]:
        still = lambda: w.call("pyjax.stand_still", "void", [("ptr", "%session")])
        return [wait_noted(w, came, still)]

    (status,) = w.if_else(w.cmp("ne", "i32", ended, "0"), ["i32"], lambda: [ended], come)
    w.ret("i32", status)


def _call_engine(module: ModuleWriter) -> None:
    """i32 call_engine(ptr session, ptr place, i64 size, i64 number, i1 last): the members that are
    here have met; the last one has the engine bring the others' tables. 0 when they are there."""
    parameters = [("ptr", "session"), ("ptr", "place"), ("i64", "size"), ("i64", "number")]
    parameters.append(("i1", "last"))
    w = module.function("pyjax.call_engine", parameters, "i32", internal=True)
    with w.if_("%last"):
        engine = w.load("ptr", word_at(w, "%session", ENGINE))
        arguments = "ptr %session, ptr %place, i64 %number"
        done = w.value(f"call i32 {engine}({arguments})")
        failed = w.cmp("eq", "i32", done, "0")
        store_word(w, "%place", STATUS, w.select(failed, "i32", str(ENGINE_FAILED), "0"))
    members = ("i32", members_here(w))
    came = w.call("pyjax.arrive", "i32", [("ptr", "%place"), members, ("ptr", "null")])

    def let_go() -> list[str]:
        w.call("pyjax.wake_members", "void", [("ptr", "%place")])
        return []

    def wait() -> list[str]:
        def nap(_: list[str]) -> list[str]:
            w.call("pyjax.nap", "void", [("ptr", "%place"), ("i32", came)])
            # The engine sees that the run has ended, and gives up for all.
            with w.if_(w.cmp("ne", "i32", w.call("pyjax_poll", "i32"), "0")):
                _end(w, str(ANOTHER_FAILED))
            return []

        w.while_([], lambda _: w.not_("i1", is_over(w, came)), nap)
        return []

    w.if_else(w.cmp("eq", "i32", came, "0"), [], let_go, wait)
    w.ret("i32", load_word(w, "%place", STATUS))


def _meet(module: ModuleWriter) -> None:
    w = module.function("pyjax_meet", list(_MEETING), "i32")
    status = w.call("pyjax.meet_here", "i32", [(type, f"%{name}") for type, name in _MEETING])
    last = w.cmp("eq", "i32", status, "-1")
    met = w.op("or", "i1", last, w.cmp("eq", "i32", status, "0"))
    others = w.cmp("ne", "i32", w.load("i32", word_at(w, "%place", HERE)), "0")

    def bring() -> list[str]:
        arguments = [("ptr", "%session"), ("ptr", "%place"), ("i64", "%size"), ("i64", "%number")]
        return [w.call("pyjax.call_engine", "i32", [*arguments, ("i1", last)])]

    here = lambda: [w.select(last, "i32", "0", status)]
    w.ret("i32", *w.if_else(w.op("and", "i1", met, others), ["i32"], bring, here))


def _meet_again(module: ModuleWriter) -> None:
    parameters = [("ptr", "session"), ("ptr", "place"), ("i64", "size")]
    w = module.function("pyjax_meet_again", parameters)
    came = come_again(w)
    with w.if_(w.cmp("ne", "i32", came, "0")):
        wait_to_the_end(w, came)
    w.ret()


def come_again(w: FunctionWriter) -> str:
    """Come to a place where nobody gives up: what its word is then, 0 for the last one, which lets
    the others go."""
    members = ("i32", members_here(w))
    came = w.call("pyjax.arrive", "i32", [("ptr", "%place"), members, ("ptr", "null")])
    with w.if_(w.cmp("eq", "i32", came, "0")):
        w.call("pyjax.wake_members", "void", [("ptr", "%place")])
    return came


def wait_to_the_end(w: FunctionWriter, came: str) -> None:
    """Wait, where nobody gives up, until all members have come since the word was this."""
    place = [("ptr", "%place"), ("i32", came)]
    w.call("pyjax.spin", "void", [("ptr", "%session"), *place])

    def nap(_: list[str]) -> list[str]:
        w.call("pyjax.nap", "void", place)
        return []

    w.while_([], lambda _: w.not_("i1", is_over(w, came)), nap)


def _share(module: ModuleWriter) -> None:
    parameters = [("ptr", "place"), ("i64", "rank"), ("i64", "size"), ("ptr", "row")]
    w = module.function("pyjax_share", parameters)
    here = w.load("i32", word_at(w, "%place", HERE))

    def some() -> list[str]:
        # Behind as many lines of tables as `numbers_start` says.
        tables = w.op("and", "i64", w.iadd(w.imul("%size", 8), LINE - 1), str(-LINE))
        numbers = w.gep("i8", w.gep("i8", "%place", TABLES), tables)
        number = w.load("i32", w.gep("i32", numbers, "%rank"))
        first = w.load("i32", word_at(w, "%place", FIRST))
        return [w.cast("zext", "i32", value, "i64") for value in (number, here, first)]

    everybody = w.cmp("eq", "i32", here, "0")
    share = w.if_else(everybody, ["i64"] * 3, lambda: ["%rank", "%size", "0"], some)
    for place, value in enumerate(share):
        w.store("i64", value, w.gep("i64", "%row", place))
    w.ret()
