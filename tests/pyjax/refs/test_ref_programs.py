"""What becomes of references in compiled programs: memory is updated in place, effects keep their
order and are never dropped, and threads and failures leave whole values."""

import gc
import multiprocessing
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.effects import AccumEffect, ReadEffect, WriteEffect

# -- in place --------------------------------------------------------------------------------------


def address(ref) -> int:
    return ref.unsafe_buffer_pointer()


def set_one(ref, x):
    ref[1] = x


def add_some(ref, x):
    pyjax.ref.addupdate(ref, jnp.array([0, 2, 2]), jnp.stack([x, x, x]))


def loop(ref, x):
    lax.fori_loop(0, 3, lambda i, c: (pyjax.ref.set(ref, i, c), c + 1)[1], x)


def branch(ref, x):
    lax.cond(x > 0, lambda: pyjax.ref.set(ref, 0, x), lambda: None)


def nested(ref, x):
    pyjax.jit(set_one)(ref, x)


WRITES = [set_one, add_some, loop, branch, nested]


@pytest.mark.parametrize("write", WRITES)
def test_programs_say_that_memory_is_shared(write) -> None:
    """The reference is one parameter, and the result that takes over its memory."""
    ref = pyjax.new_ref(jnp.zeros(1000))
    lowered = pyjax.jit(write).lower(ref, 1.0)
    text = lowered.as_text("hlo")
    assert "input_output_alias={ {}: (0, {}, may-alias) }" in text
    assert "(f32[1000]{0}, f32[])->f32[1000]{0}" in text
    stats = lowered.compile().memory_analysis()
    assert stats.alias_size_in_bytes == 4000 == stats.output_size_in_bytes
    assert stats.temp_size_in_bytes < 4000  # and no copy on the way


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("way", ["argument", "closed over", "eager"])
def test_memory_stays(write, way) -> None:
    ref = pyjax.new_ref(jnp.zeros(1000))
    ref[...] += 1  # from here on the memory is its own
    call = {
        "argument": lambda x, f=pyjax.jit(write): f(ref, x),
        "closed over": pyjax.jit(lambda x: write(ref, x)),
        "eager": lambda x: write(ref, x),
    }[way]
    call(jnp.float32(1.0))
    before = address(ref)
    for _ in range(3):
        call(jnp.float32(2.0))
        assert address(ref) == before


def test_memory_that_somebody_reads_stays_as_it_is() -> None:
    ref = pyjax.new_ref(jnp.zeros(1000))
    ref[0] = 1.0
    view = np.asarray(ref[...])
    before = address(ref)
    ref[0] = 2.0
    assert address(ref) != before and view[0] == 1.0


def test_one_memory_as_reference_and_argument() -> None:
    x = jnp.zeros(4)
    ref = pyjax.new_ref(x)

    @pyjax.jit
    def program(r, y):
        r[...] = y + 1
        return y + r[...]

    assert program(ref, x).tolist() == [1, 1, 1, 1] and x.tolist() == [0, 0, 0, 0]
    assert program(ref, ref[...]).tolist() == [3, 3, 3, 3]


def test_large_references_that_are_closed_over_are_no_constants() -> None:
    ref = pyjax.new_ref(jnp.zeros(100_000))
    text = pyjax.jit(lambda: ref[0]).lower().as_text("hlo")
    assert "f32[100000]{0} parameter(0)" in text


def test_what_is_only_read_is_no_result() -> None:
    ref = pyjax.new_ref(jnp.zeros(8))
    text = pyjax.jit(lambda r: r[0] + 1).lower(ref).as_text("hlo")
    assert "(f32[8]{0})->f32[]" in text and "alias" not in text


def test_the_compiler_sees_no_references() -> None:
    ref = pyjax.new_ref(jnp.zeros(8))
    for write in WRITES:
        assert "Ref" not in pyjax.jit(write).lower(ref, 1.0).as_text()


def test_ahead_of_time() -> None:
    ref, other = pyjax.new_ref(jnp.zeros(3)), pyjax.new_ref(jnp.zeros(3))
    compiled = pyjax.jit(lambda r, x: (set_one(r, x), r[1] * 2)[1]).lower(ref, 1.0).compile()
    assert float(compiled(other, 4.0)) == 8.0
    assert ref[...].tolist() == [0, 0, 0] and other[...].tolist() == [0, 4, 0]
    with pytest.raises(TypeError, match="called with other types"):
        compiled(jnp.zeros(3), 4.0)


def test_compiled_once_for_a_kind_of_references() -> None:
    f = pyjax.jit(set_one)
    f(pyjax.new_ref(jnp.zeros(3)), 1.0)
    same, other = pyjax.new_ref(jnp.ones(3)), pyjax.new_ref(jnp.zeros(4))
    with pyjax.assert_compiles(0):
        f(same, 2.0)
    assert same[...].tolist() == [1, 2, 1]
    with pyjax.assert_compiles(1):
        f(other, 1.0)


def test_donated_arguments_beside_references() -> None:
    ref, x = pyjax.new_ref(jnp.zeros(3)), jnp.ones(3)
    f = pyjax.jit(lambda x, r: (pyjax.ref.set(r, ..., x * 2), x + 1)[1], donate_argnums=0)
    assert f(x, ref).tolist() == [2, 2, 2] and ref[...].tolist() == [2, 2, 2]
    assert x.is_deleted()


# -- order and effects -----------------------------------------------------------------------------


def test_a_read_sees_the_write_before_it() -> None:
    ref = pyjax.new_ref(jnp.zeros(2))

    @pyjax.jit
    def first(x):
        a = ref[0]
        ref[0] = x
        b = ref[0]
        ref[0] = x + 1
        return a, b, ref[0]

    assert [float(v) for v in first(5.0)] == [0, 5, 6]
    assert [float(v) for v in first(7.0)] == [6, 7, 8]
    assert float(ref[0]) == 8


def test_writes_of_unused_results_happen() -> None:
    ref = pyjax.new_ref(jnp.zeros(4))

    def noisy(i, x):
        ref[i] = x
        return x * 2

    @pyjax.jit
    def program(x):
        noisy(0, x)
        pyjax.jit(noisy)(1, x)
        lax.scan(lambda c, _: (noisy(2, c), None), x, None, length=2)
        lax.cond(x > 0, lambda: noisy(3, x), lambda: x)

    program(3.0)
    assert ref[...].tolist() == [3, 3, 6, 3]


def test_effects_of_programs() -> None:
    ref = pyjax.new_ref(jnp.zeros(3))

    def program(x, r):
        r[0] = x
        pyjax.ref.addupdate(r, 1, x)
        own = pyjax.new_ref(x)
        own[...] = r[2]
        return own[...]

    expected = {WriteEffect(1), AccumEffect(1), ReadEffect(1)}
    for f in (program, pyjax.jit(program)):
        effects = pyjax.make_jaxpr(f)(1.0, ref).effects
        assert {e for e in effects if hasattr(e, "input_index")} == expected
    assert str(WriteEffect(1)) == "Write<1>"
    (outer,) = pyjax.make_jaxpr(
        lambda: lax.while_loop(
            lambda c: c < ref[0], lambda c: (pyjax.ref.set(ref, 0, 0.0), c + 1)[1], 0.0
        )
    )().effects - {ReadEffect(0)}
    assert outer == WriteEffect(0)


def test_text_of_programs() -> None:
    ref = pyjax.new_ref(jnp.arange(3.0))

    def program(r, x):
        r[0] = x
        r[1:] = pyjax.ref.swap(r, slice(0, 2), r[::2])
        pyjax.ref.addupdate(r, 1, x)
        r.at[1:][0] = x
        return r[...]

    lines = [line.strip() for line in str(pyjax.make_jaxpr(program)(ref, 1.0)).splitlines()]
    assert lines == [
        "{ lambda ; a:Ref{f32[3]} b:f32[]. let",
        "a[0] <- b",
        "c:f32[2] <- a[::2]",
        "d:f32[2], a[:2] <- a[:2], c",
        "a[1:] <- d",
        "a[1] += b",
        "a[1:][0] <- b",
        "e:f32[3] <- a[...]",
        "in (e,) }",
    ]
    made = str(pyjax.make_jaxpr(lambda x: pyjax.freeze(pyjax.new_ref(x)))(jnp.ones(2)))
    assert "b:Ref{f32[2]} = new_ref[" in made and "c:f32[2] = freeze b" in made


# -- random programs -------------------------------------------------------------------------------

N = 5
steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "add", "swap", "get", "slice", "array", "whole"]),
        st.integers(0, N - 1),
        st.integers(-4, 4),
    ),
    min_size=1,
    max_size=12,
)


def run_on_ref(program, ref, seen):
    for kind, i, v in program:
        value = jnp.float32(v)
        if kind == "set":
            ref[i] = value
        elif kind == "add":
            pyjax.ref.addupdate(ref, i, value)
        elif kind == "swap":
            seen.append(pyjax.ref.swap(ref, i, value))
        elif kind == "get":
            seen.append(ref[i] + value)
        elif kind == "slice":
            ref[i:] *= value
        elif kind == "array":
            pyjax.ref.addupdate(
                ref, jnp.array([i, 0, i]), jnp.stack([value, seen_last(seen), value])
            )
        else:
            ref[...] = ref[...] + seen_last(seen)


def run_on_array(program, x, seen):
    for kind, i, v in program:
        value = np.float32(v)
        if kind == "set":
            x[i] = value
        elif kind == "add":
            x[i] += value
        elif kind == "swap":
            seen.append(x[i].copy())
            x[i] = value
        elif kind == "get":
            seen.append(x[i] + value)
        elif kind == "slice":
            x[i:] *= value
        elif kind == "array":
            np.add.at(x, [i, 0, i], [value, seen_last(seen), value])
        else:
            x += seen_last(seen)


def seen_last(seen):
    return seen[-1] if seen else np.float32(1)


@settings(max_examples=15, deadline=None)
@given(steps)
def test_random_programs(program) -> None:
    """Eagerly, in one jitted call, in a call for each step, and as the body of a scan."""
    model, expected = np.arange(N, dtype=np.float32), []
    run_on_array(program, model, expected)

    def whole(ref):
        seen = []
        run_on_ref(program, ref, seen)
        return seen

    def scanned(ref):
        def body(c, _):
            return c, whole(ref)

        return [y[0] for y in lax.scan(body, 0, None, length=1)[1]]

    for way in (whole, pyjax.jit(whole), scanned, pyjax.jit(scanned)):
        ref = pyjax.new_ref(jnp.arange(N, dtype=jnp.float32))
        got = way(ref)
        np.testing.assert_array_equal(np.array(got, np.float32), np.array(expected, np.float32))
        np.testing.assert_array_equal(ref[...], model)


# -- threads, forks, failures ----------------------------------------------------------------------


def test_threads_that_write_one_reference() -> None:
    """Additions by programs of several threads are all there, and each read is of one state."""
    ref = pyjax.new_ref(jnp.zeros(512))
    start, broken = threading.Barrier(4), []

    @pyjax.jit
    def add():
        ref[...] += 1

    add()

    def work(kind):
        start.wait()
        for _ in range(200):
            if kind == "read":
                values = np.asarray(ref[...])
                if values.min() != values.max():
                    broken.append(values)
            elif kind == "jit":
                add()
            else:
                pyjax.ref.addupdate(ref, ..., jnp.ones(512))

    threads = [threading.Thread(target=work, args=(k,)) for k in ("jit", "eager", "read", "jit")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not broken
    assert float(ref[0]) == 601.0 == float(ref[511])


def test_threads_that_write_two_references_in_either_order() -> None:
    a, b = pyjax.new_ref(jnp.zeros(8)), pyjax.new_ref(jnp.zeros(8))

    @pyjax.jit
    def move(x, y):
        x[...] += 1
        y[...] -= 1

    def work(x, y):
        for _ in range(200):
            move(x, y)

    threads = [threading.Thread(target=work, args=p, daemon=True) for p in ((a, b), (b, a))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert a[...].tolist() == b[...].tolist() == [0] * 8


def test_a_program_that_fails_before_it_runs_leaves_the_reference() -> None:
    ref, gone = pyjax.new_ref(jnp.zeros(3)), jnp.ones(3)
    f = pyjax.jit(lambda r, x: pyjax.ref.set(r, ..., x))
    f(ref, gone)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(ref, gone)
    assert ref[...].tolist() == [1, 1, 1]


def test_a_callback_finds_nothing_in_a_reference_that_its_program_writes() -> None:
    ref, seen = pyjax.new_ref(jnp.zeros(3)), []

    def look(x):
        try:
            ref[...]
        except RuntimeError as error:
            seen.append(str(error))
        return np.asarray(x)

    @pyjax.jit
    def program(x):
        y = pyjax.pure_callback(look, pyjax.ShapeDtypeStruct((), jnp.float32), x)
        ref[0] = y

    program(2.0)
    assert "holds nothing" in seen[0] and "a program that writes to it has not ended" in seen[0]
    assert ref[...].tolist() == [2, 0, 0]


def test_a_program_that_fails_in_the_middle_takes_the_value_along() -> None:
    ref = pyjax.new_ref(jnp.zeros(3))
    ref[0] = 1.0

    def boom(x):
        raise ZeroDivisionError("on purpose")

    @pyjax.jit
    def program():
        ref[0] = 5.0
        ref[1] = pyjax.pure_callback(boom, pyjax.ShapeDtypeStruct((), jnp.float32), ref[0])

    with pytest.raises(Exception, match="on purpose"):
        program()
    try:
        values = ref[...].tolist()
    except RuntimeError as error:
        assert "it failed and left nothing" in str(error)
    else:
        assert values == [1, 0, 0]


def test_fork_while_another_thread_writes() -> None:
    ref = pyjax.new_ref(jnp.zeros(4))
    inside, go_on = threading.Event(), threading.Event()

    def wait(x):
        inside.set()
        assert go_on.wait(60)
        return np.asarray(x)

    @pyjax.jit
    def program():
        ref[0] = pyjax.pure_callback(wait, pyjax.ShapeDtypeStruct((), jnp.float32), ref[0] + 1)

    thread = threading.Thread(target=program)
    thread.start()
    assert inside.wait(60)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child():
        try:
            queue.put(str(ref[...]))
        except RuntimeError as error:
            queue.put(str(error))

    process = context.Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0, "the child waits for a thread that it does not have"
    assert "holds nothing" in queue.get()
    go_on.set()
    thread.join()
    assert float(ref[0]) == 1.0


def test_a_reference_goes_with_what_refers_to_it() -> None:
    ref = pyjax.new_ref(jnp.zeros(3))
    over = weakref.ref(ref)
    pyjax.jit(set_one)(ref, 1.0)
    del ref
    gc.collect()
    assert over() is None
