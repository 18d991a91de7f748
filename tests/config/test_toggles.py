"""Options that change between calls: what was traced under other values is never used, and what
does not depend on an option is not traced anew. Each thread and each task has its own values.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import itertools
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyjax._config import config, options
from pyjax._config.kinds import Bool
from pyjax._config.registry import (
    ContextKey,
    Option,
    Source,
    all_options,
    deviating,
    trace_context,
)

import pyjax
import pyjax.numpy as jnp
from tests.threads import together

# The first bits of the keys 1, 2, 3 in the reference, partitionable or not.
BITS = {
    (True, 1): [1883912375, 2292451390],
    (True, 2): [2752176745, 3868056420],
    (True, 3): [318053758, 4029299397],
    (False, 1): [1948878966, 4237131848],
    (False, 2): [637334850, 3278974502],
    (False, 3): [1946498123, 2217676430],
}
VALUES: dict[str, tuple[Any, ...]] = {
    "jax_enable_x64": (False, True),
    "jax_threefry_partitionable": (True, False),
    "jax_random_seed_offset": (0, 1, 2),
}
# Options that no program depends on; the one that forbids tracing stays as it is.
OTHERS = [
    option
    for option in all_options().values()
    if not option.keyed and isinstance(option.kind, Bool) and option.name != "jax_no_tracing"
]
State = dict[str, Any]
Action = tuple[str, Any]
traces: list[State] = []


@pyjax.jit
def program(x: pyjax.Array) -> Any:
    """What it returns depends on each of the options."""
    traces.append({name: config.read(name) for name in VALUES})
    return x + jnp.zeros(()), pyjax.random.bits(pyjax.random.key(1), (2,))


def check(state: State) -> None:
    """The program does what the options say now."""
    for name, value in state.items():
        assert config.read(name) == value
    zero, bits = program(np.float32(0) if not state["jax_enable_x64"] else np.float64(0))
    assert zero.dtype == ("float64" if state["jax_enable_x64"] else "float32")
    seed = 1 + state["jax_random_seed_offset"]
    assert bits.tolist() == BITS[state["jax_threefry_partitionable"], seed]


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of them do nothing yet, and say so
        yield
        for option in all_options().values():
            option.clear(Source.UPDATE)


@st.composite
def chosen(draw: st.DrawFn, values: dict[str, tuple[Any, ...]]) -> tuple[str, Any]:
    name = draw(st.sampled_from(sorted(values)))
    return name, draw(st.sampled_from(values[name]))


def actions_on(values: dict[str, tuple[Any, ...]]) -> st.SearchStrategy[Action]:
    """What `follow` does with these options, and with those that nothing depends on."""
    return st.one_of(
        st.tuples(st.just("update"), chosen(values)),
        st.tuples(st.just("enter"), chosen(values)),
        st.tuples(st.just("leave"), st.none()),
        st.tuples(st.just("other"), st.tuples(st.sampled_from(OTHERS), st.booleans())),
    )


def follow(
    actions: list[Action],
    values: dict[str, tuple[Any, ...]],
    check_now: Callable[[State], None],
) -> None:
    """Do what the actions say, and check after each of them."""
    process = {name: choices[0] for name, choices in values.items()}
    blocks: list[tuple[str, Any, ExitStack]] = []
    try:
        check_now(process)
        for action, what in actions:
            if action == "update":
                config.update(*what)
                process[what[0]] = what[1]
            elif action == "enter":
                stack = ExitStack()
                name, value = what
                stack.enter_context(all_options()[name](value))
                blocks.append((name, value, stack))
            elif action == "leave" and blocks:
                blocks.pop()[2].close()
            elif action == "other":
                config.update(what[0].name, what[1])
            check_now({**process, **{name: value for name, value, _ in blocks}})
    finally:
        for _, _, stack in reversed(blocks):
            stack.close()


def check_traced_once(state: State) -> None:
    """Each state is traced once, in all examples together."""
    known = [*traces]
    check(state)
    assert len(traces) - len(known) == (state not in known)


@settings(max_examples=60, deadline=None)
@given(st.lists(actions_on(VALUES), max_size=12))
def test_programs_follow_the_options_and_nothing_else(actions: list[Action]) -> None:
    for option in all_options().values():
        option.clear(Source.UPDATE)
    follow(actions, VALUES, check_traced_once)


@pytest.mark.parametrize("option", OTHERS, ids=lambda o: o.name)
def test_options_that_nothing_depends_on_are_in_no_key(option: Any) -> None:
    before = trace_context()
    config.update(option.name, not option.default)
    assert trace_context() is before


def test_a_call_looks_at_one_object_for_all_options() -> None:
    assert ContextKey.__hash__ is object.__hash__ and ContextKey.__eq__ is object.__eq__
    assert trace_context() is trace_context()
    with options.enable_x64(True):
        inside = trace_context()
        assert inside is trace_context()
    with options.enable_x64(True):
        assert trace_context() is inside


def test_tasks_of_asyncio_each_with_their_own_values() -> None:
    async def task(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(10):
            state = {name: rng.choice(values) for name, values in VALUES.items()}
            with ExitStack() as stack:
                for name, value in state.items():
                    stack.enter_context(all_options()[name](value))
                    await asyncio.sleep(0)
                check(state)
                await asyncio.sleep(0)
                check(state)

    async def all_tasks() -> None:
        await asyncio.gather(*map(task, range(6)))

    asyncio.run(all_tasks())
    check({name: values[0] for name, values in VALUES.items()})


def test_a_task_keeps_the_values_it_started_with() -> None:
    seen = []

    async def child(opened: asyncio.Event) -> None:
        await opened.wait()  # meanwhile the block around its start ends, and another one begins
        seen.append((options.enable_x64.value, options.random_seed_offset.value))

    async def parent() -> None:
        opened = asyncio.Event()
        with options.enable_x64(True):
            started = asyncio.create_task(child(opened))
            await asyncio.sleep(0)
        assert not options.enable_x64.value
        with options.random_seed_offset(2):
            opened.set()
            await started

    asyncio.run(parent())
    assert seen == [(True, 0)]


def test_eight_threads_each_with_their_own_values() -> None:
    for values in itertools.product(*VALUES.values()):
        with ExitStack() as stack:
            for name, value in zip(VALUES, values):
                stack.enter_context(all_options()[name](value))
            check(dict(zip(VALUES, values)))
    traced = len(traces)

    def hammer(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(60):
            state = {name: rng.choice(values) for name, values in VALUES.items()}
            names = [*VALUES]
            rng.shuffle(names)
            with ExitStack() as stack:
                for name in names:
                    stack.enter_context(all_options()[name](state[name]))
                check(state)
                if rng.random() < 0.2:
                    config.update(rng.choice(OTHERS).name, rng.random() < 0.5)
        check({name: values[0] for name, values in VALUES.items()})

    together(*(partial(hammer, seed) for seed in range(8)))
    assert len(traces) == traced  # every state was traced before


# -- options of the compiler -----------------------------------------------------------------------

# The default first.
COMPILED: dict[str, tuple[Any, ...]] = {
    "jax_optimization_level": ("UNKNOWN", "O0"),
    "jax_memory_fitting_level": ("O2", "O3"),
    "jax_default_matmul_precision": (None, "highest"),
}
WEIGHTS = np.random.default_rng(0).normal(size=(3, 64, 64)).astype(np.float32) / 8
INPUT = np.linspace(0, 1, 128 * 64, dtype=np.float32).reshape(128, 64)


def gradients(weights: pyjax.Array, x: pyjax.Array) -> Any:
    """Of layers: there is much to simplify, to keep and to multiply."""

    def loss(weights: pyjax.Array) -> Any:
        y = x
        for w in weights:
            y = jnp.sin(jnp.exp(jnp.cos(y)) * y) @ w
        return (y * y).sum()

    return pyjax.grad(loss)(weights)


step = pyjax.jit(gradients)
# What each state is seen by: operations that are left, bytes of temporaries, precise operands.
Seen = tuple[int, int, int]
seen_first: dict[tuple[Any, ...], Seen] = {}


def seen_of(executable: Any) -> Seen:
    operations = sum(map(len, executable.module.computations))
    return operations, executable.temp_size, executable.texts()["hlo"].lower().count("highest")


def check_compiled(state: State) -> None:
    """The program that is called is what the compiler makes of the function in this state."""
    key = tuple(state.values())
    with pyjax.assert_compiles(0 if key in seen_first else 1):
        step(WEIGHTS, INPUT)
    found, _ = step._known((WEIGHTS, INPUT), {})
    seen = seen_of(found.program.executable)
    if key not in seen_first:
        fresh = pyjax.jit(gradients).lower(WEIGHTS, INPUT).compile()
        seen_first[key] = seen_of(fresh.runtime_executable())
    assert seen == seen_first[key], state


@settings(max_examples=30, deadline=None)
@given(st.lists(actions_on(COMPILED), max_size=8))
def test_programs_are_compiled_as_the_options_say(actions: list[Action]) -> None:
    for option in all_options().values():
        option.clear(Source.UPDATE)
    follow(actions, COMPILED, check_compiled)


def test_each_option_of_the_compiler_is_seen() -> None:
    """Else the property says nothing."""
    usual = {name: values[0] for name, values in COMPILED.items()}
    check_compiled(usual)
    for place, (name, values) in enumerate(COMPILED.items()):
        with all_options()[name](values[1]):
            check_compiled({**usual, name: values[1]})
        changed = tuple({**usual, name: values[1]}.values())
        before, now = seen_first[tuple(usual.values())], seen_first[changed]
        assert before[place] != now[place], name


# -- cost ------------------------------------------------------------------------------------------

HOT: dict[str, Any] = {
    "operator": lambda x: x + x,
    "number": lambda x: x * 2.0,
    "NumPy operand": lambda x: x + np.ones(3, np.float32),
    "reduction": lambda x: x.sum(),
    "update": lambda x: x.at[1].set(5.0),
    "jit": pyjax.jit(lambda x: jnp.sin(x) * 2),
    "jit of a container": lambda x: container(x=x, y=[x, x]),
    "to NumPy": lambda x: np.asarray(x),
    "number out": lambda x: float(x[0]),
}
container = pyjax.jit(lambda x, y: x + y[0] * y[1])


@pytest.mark.parametrize("name", HOT)
def test_hot_paths_read_no_option(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading costs more than the look at one object, or one table, that they take instead."""
    call, x = HOT[name], jnp.arange(3.0)
    call(x)
    call(x)
    read = noted_reads(monkeypatch)
    assert options.enable_x64.value is False and "jax_enable_x64" in read
    gc.disable()  # a collection is watched, as an option says
    try:
        read.clear()
        call(x)
        assert read == []
    finally:
        gc.enable()


def noted_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the options that are read from now on."""
    read: list[str] = []

    def noting(option: Option) -> Callable[[], Any]:
        here = option.here
        return lambda: (read.append(option.name), here())[1]

    for option in all_options().values():
        monkeypatch.setattr(option, "here", noting(option))
    return read


def test_a_read_is_one_call_of_c() -> None:
    """No frame of Python, whoever sets the option."""
    option = options.enable_x64
    frames: list[Any] = []

    def read() -> Any:
        sys.setprofile(lambda frame, event, arg: frames.append((event, arg)))
        found = option.here()[0].value
        sys.setprofile(None)
        return found

    for value in (False, True):
        with option(value):
            assert read() is value
    assert read() is False
    started = [event for event, _ in frames if event == "call"]
    called = [arg for event, arg in frames if event == "c_call" and arg is not sys.setprofile]
    assert not started and [f.__name__ for f in called] == ["get"] * 3


def test_the_process_is_read_in_every_thread_and_block() -> None:
    """An update from another thread is seen at once, where no block sets the option."""
    seen: list[Any] = []

    def update(value: bool) -> None:
        thread = threading.Thread(target=config.update, args=("jax_log_compiles", value))
        thread.start()
        thread.join()
        seen.append(options.log_compiles.here()[0].value)

    with options.enable_x64(True), options.log_compiles(False):
        update(True)
        context = contextvars.copy_context()
    update(True)
    update(False)
    assert seen == [False, True, False]
    assert context.run(lambda: options.log_compiles.here()[0].value) is False


MORE_OPTIONS = """
import sys
from pyjax._config.registry import Affects, Scope, all_options, option, trace_context
from pyjax._config.kinds import Bool
import pyjax, pyjax.numpy as jnp

f, x = pyjax.jit(lambda x: x + 1), jnp.arange(3)

def instructions(call):
    count = 0
    def trace(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace
    call()
    call()
    for _ in range(2):  # Python 3.12 sees no instructions of code that is traced for the first time
        count = 0
        sys.settrace(trace)
        call()
        sys.settrace(None)
    return count

def costs():
    with pyjax.enable_x64(True):
        inside = instructions(trace_context), instructions(lambda: f(x))
    return instructions(trace_context), instructions(lambda: f(x)), *inside

few = costs()
for i in range(100):
    affects = Affects.TRACE if i % 2 else Affects.NOTHING
    name, kind = f"jax_more_{i}", Bool()
    option(name, kind=kind, default=False, affects=affects, scope=Scope.THREAD, help="")
many = costs()
assert few == many, (few, many)
assert few[0] > 3, few
"""


def test_keys_cost_the_same_with_more_options() -> None:
    """In instructions: what a key is made of is looked at when an option changes, not at a call."""
    # A program that ran on first code may become one of any size when it is met again.
    environment = {**os.environ, "PYJAX_FIRST_CODE": "0"}
    command = [sys.executable, "-c", MORE_OPTIONS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_table_is_empty_while_options_have_their_usual_values() -> None:
    table = deviating((options.disable_jit,), usual=(False,))
    assert not table
    with options.disable_jit(True):
        assert table
    assert not table
    config.update("jax_disable_jit", True)
    assert table
    config.update("jax_disable_jit", False)
    assert not table
    with options.enable_x64(True):
        assert not table


# -- what does not act is in no key ----------------------------------------------------------------

# Values that mean the same: of one option, or of one that acts only together with another.
SAME: list[list[dict[str, Any]]] = [
    [{"jax_optimization_level": "UNKNOWN"}, {"jax_optimization_level": "O2"}],
    [{"jax_memory_fitting_level": "UNKNOWN"}, {"jax_memory_fitting_level": "O2"}],
    [
        {},
        {"jax_pgle_profiling_runs": 7},
        {"jax_pgle_aggregation_percentile": 50},
        {"jax_enable_pgle": True, "jax_pgle_profiling_runs": 0},
        {
            "jax_enable_pgle": True,
            "jax_pgle_profiling_runs": 0,
            "jax_pgle_aggregation_percentile": 50,
        },
    ],
]
DIFFERENT: list[list[dict[str, Any]]] = [
    [{"jax_optimization_level": "UNKNOWN"}, {"jax_optimization_level": "O3"}],
    [
        {},
        {"jax_enable_pgle": True},
        {"jax_enable_pgle": True, "jax_pgle_profiling_runs": 7},
        {"jax_enable_pgle": True, "jax_pgle_aggregation_percentile": 50},
    ],
]


def check_compilations(states: list[dict[str, Any]], updated: bool, later: int) -> None:
    """Of one function that is called in each state: one in the first, `later` in each other."""
    f = pyjax.jit(lambda x: jnp.sin(x) @ x)
    for number, state in enumerate(states):
        with ExitStack() as stack:
            for name, value in state.items():
                if updated:
                    config.update(name, value)
                    stack.callback(all_options()[name].clear, Source.UPDATE)
                else:
                    stack.enter_context(all_options()[name](value))
            with pyjax.assert_compiles(later if number else 1):
                f(WEIGHTS[0])


@pytest.mark.parametrize("updated", [False, True], ids=["block", "update"])
@pytest.mark.parametrize("states", SAME, ids=lambda states: next(iter(states[-1])))
def test_values_that_mean_the_same_are_one_program(
    states: list[dict[str, Any]], updated: bool
) -> None:
    check_compilations(states, updated, later=0)


@pytest.mark.parametrize("updated", [False, True], ids=["block", "update"])
@pytest.mark.parametrize("states", DIFFERENT, ids=lambda states: next(iter(states[-1])))
def test_values_that_differ_are_programs_of_their_own(
    states: list[dict[str, Any]], updated: bool
) -> None:
    check_compilations(states, updated, later=1)
