"""Reading and writing mutable references: eagerly and under jit, against a NumPy array that is
treated the same way."""

import copy
import pickle

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

# name, shape of the reference, index.
INDICES = [
    ("all", (6,), ...),
    ("nothing", (6,), ()),
    ("integer", (6,), 1),
    ("last", (6,), -1),
    ("first-from-end", (6,), -6),
    ("numpy-integer", (6,), np.int64(2)),
    ("slice", (6,), np.s_[1:3]),
    ("slice-from-end", (6,), np.s_[-3:]),
    ("slice-too-long", (6,), np.s_[2:100]),
    ("empty-slice", (6,), np.s_[4:2]),
    ("steps", (6,), np.s_[::2]),
    ("steps-from", (7,), np.s_[1:6:3]),
    ("array", (6,), np.array([0, 2])),
    ("array-from-end", (6,), np.array([-1, 0])),
    ("one-element-array", (6,), np.array([4])),
    ("unsigned", (6,), np.array([4, 1], np.uint8)),
    ("row", (3, 4), 1),
    ("column", (3, 4), np.s_[:, 2]),
    ("block", (3, 4), np.s_[1:, :2]),
    ("element", (3, 4), (2, 3)),
    ("ellipsis-last", (2, 3, 4), (..., 1)),
    ("ellipsis-middle", (2, 3, 4), (0, ..., 0)),
    ("part-of-row", (2, 3, 4), np.s_[0, 0:2, 1]),
    ("arrays-together", (2, 3, 4), np.s_[:, np.array([1, 2]), np.array([1, 2])]),
    ("arrays-apart", (2, 3, 4), np.s_[np.array([0, 1]), :, np.array([1, 2])]),
    ("integer-and-array", (2, 3, 4), np.s_[:, 1, np.array([0, 3])]),
    ("array-and-steps", (2, 3, 5), np.s_[np.array([1, 0]), 0:3:2, 1:]),
    ("arrays-broadcast", (2, 3, 4), (np.array([[0], [1]]), np.array([0, 2]))),
    ("slice-and-steps", (2, 3, 4), np.s_[:, 0:3:2, 1:3]),
    ("array-in-the-middle", (2, 3, 4), np.s_[:, np.array([2, 0])]),
    ("two-dimensional-array", (5, 2), np.array([[0, 3], [1, 2]])),
    ("no-dimensions", (), ...),
]
CASES = [pytest.param(shape, index, id=name) for name, shape, index in INDICES]


def counting(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def eager(function):
    return function


@pytest.fixture(params=[eager, pyjax.jit], ids=["eager", "jit"])
def run(request):
    return request.param


@pytest.mark.parametrize("shape, index", CASES)
def test_read(shape, index, run) -> None:
    ref = pyjax.new_ref(counting(shape))
    got = run(lambda r: r[index])(ref)
    np.testing.assert_array_equal(np.asarray(got), counting(shape)[index])


@pytest.mark.parametrize("shape, index", CASES)
def test_write(shape, index, run) -> None:
    ref, model = pyjax.new_ref(counting(shape)), counting(shape)
    value = -1 - counting(model[index].shape)

    def program(r, v):
        r[index] = v
        return r[...] * 2

    got = run(program)(ref, value)
    model[index] = value
    np.testing.assert_array_equal(np.asarray(got), model * 2)
    np.testing.assert_array_equal(np.asarray(ref[...]), model)


@pytest.mark.parametrize("shape, index", CASES)
def test_swap(shape, index, run) -> None:
    ref, model = pyjax.new_ref(counting(shape)), counting(shape)
    value = -1 - counting(model[index].shape)
    before = run(lambda r, v: pyjax.ref.swap(r, index, v))(ref, value)
    np.testing.assert_array_equal(np.asarray(before), model[index])
    model[index] = value
    np.testing.assert_array_equal(np.asarray(ref[...]), model)


@pytest.mark.parametrize("shape, index", CASES)
def test_addupdate(shape, index, run) -> None:
    ref, model = pyjax.new_ref(counting(shape)), counting(shape)
    value = 1 + counting(model[index].shape)
    run(lambda r, v: pyjax.ref.addupdate(r, index, v))(ref, value)
    model[index] += value
    np.testing.assert_array_equal(np.asarray(ref[...]), model)


@pytest.mark.parametrize("shape, index", CASES)
def test_part(shape, index, run) -> None:
    """`ref.at[index]`, read and written as a whole."""
    ref, model = pyjax.new_ref(counting(shape)), counting(shape)
    value = -1 - counting(model[index].shape)

    def program(r, v):
        part = r.at[index]
        before = part[...]
        part[...] = v
        return before

    got = run(program)(ref, value)
    np.testing.assert_array_equal(np.asarray(got), model[index])
    model[index] = value
    np.testing.assert_array_equal(np.asarray(ref[...]), model)


def test_part_of_part(run) -> None:
    ref, model = pyjax.new_ref(counting((4, 5))), counting((4, 5))

    def program(r):
        part = r.at[1:].at[:, 1:4:2]
        part[0] = jnp.array([50.0, 60.0])
        pyjax.ref.addupdate(part, (slice(None), 1), jnp.ones(3))
        return part[...]

    got = run(program)(ref)
    view = model[1:][:, 1:4:2]
    view[0] = [50, 60]
    view[:, 1] += 1
    np.testing.assert_array_equal(np.asarray(got), view)
    np.testing.assert_array_equal(np.asarray(ref[...]), model)


def test_repeated_indices_add_up(run) -> None:
    ref = pyjax.new_ref(jnp.zeros(3))
    run(lambda r: pyjax.ref.addupdate(r, jnp.array([0, 0, 2]), jnp.ones(3)))(ref)
    assert ref[...].tolist() == [2, 0, 1]


@pytest.mark.parametrize("index, expected", [(9, 5.0), (-9, 0.0)])
def test_unknown_integers_are_clamped(index: int, expected: float) -> None:
    ref = pyjax.new_ref(jnp.arange(6.0))
    assert float(pyjax.jit(lambda r, i: r[i])(ref, index)) == expected
    pyjax.jit(lambda r, i: pyjax.ref.set(r, i, 50.0))(ref, index)
    assert float(ref[int(expected)]) == 50.0


def test_array_elements_out_of_bounds_read_the_nearest_and_write_nothing(run) -> None:
    ref = pyjax.new_ref(jnp.arange(3.0))
    where = jnp.array([1, 9])
    assert run(lambda r: r[where])(ref).tolist() == [1, 2]
    run(lambda r: pyjax.ref.set(r, where, jnp.array([7.0, 8.0])))(ref)
    assert ref[...].tolist() == [0, 7, 2]


def test_augmented_assignment(run) -> None:
    ref = pyjax.new_ref(jnp.arange(4.0))

    def program(r):
        r[...] += 1
        r[1:3] *= 10

    run(program)(ref)
    assert ref[...].tolist() == [1, 20, 30, 4]


def test_what_was_read_does_not_change() -> None:
    ref = pyjax.new_ref(jnp.zeros(3))
    before = ref[...]
    frozen = pyjax.freeze(ref)
    ref[1] = 5.0
    pyjax.jit(lambda: pyjax.ref.addupdate(ref, ..., jnp.ones(3)))()
    assert before.tolist() == frozen.tolist() == [0, 0, 0]
    assert ref[...].tolist() == [1, 6, 1]


def test_initial_value_does_not_change() -> None:
    x = jnp.zeros(3)
    ref = pyjax.new_ref(x)
    ref[0] = 1.0
    assert x.tolist() == [0, 0, 0]
    host = np.zeros(3, np.float32)
    ref = pyjax.new_ref(host)
    host[0] = 5
    assert ref[...].tolist() == [0, 0, 0]


def test_values_are_converted_as_python_numbers_are() -> None:
    ref = pyjax.new_ref(jnp.zeros(2, jnp.float16))
    ref[0] = 2.5
    small = pyjax.new_ref(jnp.zeros(2, jnp.int8))
    small[0] = 7
    small[1] = jnp.int32(8)
    assert ref[...].dtype == jnp.float16 and ref[...].tolist() == [2.5, 0]
    assert small[...].dtype == jnp.int8 and small[...].tolist() == [7, 8]


def test_what_a_reference_says_about_itself() -> None:
    ref = pyjax.new_ref(jnp.zeros((2, 3), jnp.int32))
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((2, 3), jnp.int32, 2, 6, 2)
    assert repr(ref.aval) == "Ref{int32[2,3]}" == repr(pyjax.typeof(ref))
    assert repr(pyjax.new_ref(jnp.arange(2.0))) == "Ref([0., 1.], dtype=float32)"
    assert ref.committed and ref.sharding.device_set == {pyjax.devices()[0]}
    assert isinstance(ref.unsafe_buffer_pointer(), int)
    assert hash(ref) == hash(ref) and ref == ref and ref != pyjax.new_ref(ref[...])
    assert pyjax.block_until_ready(ref) is ref


def test_types_are_interned() -> None:
    f32 = pyjax.new_ref(jnp.zeros(3)).aval
    assert f32 is pyjax.new_ref(jnp.ones(3)).aval
    assert f32 is pyjax.ref.AbstractRef(f32.inner_aval)
    assert f32 is not pyjax.ref.AbstractRef(f32.inner_aval, kind="no_grad_no_remat")


def test_isinstance() -> None:
    seen = []
    ref = pyjax.new_ref(jnp.zeros(2))
    pyjax.jit(lambda r, x: seen.append((isinstance(r, pyjax.Ref), isinstance(x, pyjax.Ref))))(
        ref, 1.0
    )
    assert seen == [(True, False)]
    assert isinstance(ref, pyjax.Ref) and not isinstance(ref[...], pyjax.Ref)
    assert not isinstance(ref, pyjax.Array)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_copies_are_references_of_their_own(copied) -> None:
    ref = pyjax.new_ref(jnp.arange(3.0))
    other = copied(ref)
    other[0] = 9.0
    assert ref[...].tolist() == [0, 1, 2] and other[...].tolist() == [9, 1, 2]


def test_random_keys() -> None:
    ref = pyjax.new_ref(pyjax.random.key(0))

    @pyjax.jit
    def draw():
        ref[...], used = pyjax.random.split(ref[...])
        return pyjax.random.uniform(used)

    key = pyjax.random.key(0)
    for _ in range(3):
        key, used = pyjax.random.split(key)
        assert float(draw()) == float(pyjax.random.uniform(used))


def test_empty_and_free() -> None:
    ref = pyjax.empty_ref(pyjax.ShapeDtypeStruct((2,), jnp.float32))
    ref[...] = jnp.ones(2)
    assert ref[...].tolist() == [1, 1]
    assert pyjax.free_ref(ref) == ()


def test_disable_jit() -> None:
    ref = pyjax.new_ref(jnp.zeros(3))
    with pyjax.disable_jit():
        pyjax.jit(lambda r: pyjax.ref.set(r, 0, 5.0))(ref)
        lax.fori_loop(1, 3, lambda i, c: (pyjax.ref.set(ref, i, 2.0), c)[1], 0)
    assert ref[...].tolist() == [5, 2, 2]


@pytest.mark.parametrize(
    "use, kind, text",
    [
        (lambda r: r[3], ValueError, "Out of bound indexer: idx=3, dim=3"),
        (lambda r: r[0, 0], ValueError, "2 indices for a Ref of 1 dimension"),
        (lambda r: r[..., ...], ValueError, "more than one `...`"),
        (lambda r: r[::-1], ValueError, "must have a step >= 1, and has -1"),
        (lambda r: r[::0], ValueError, "must have a step >= 1, and has 0"),
        (lambda r: r[jnp.ones(3, bool)], IndexError, "indexed with a mask of type bool"),
        (lambda r: r[0.5], TypeError, "indexed with float32"),
        (lambda r: r[[0, 1]], TypeError, "is no index of a Ref"),
        (lambda r: r["a"], TypeError, "is no index of a Ref"),
        (lambda r: r[r], TypeError, "a Ref was used as an index"),
        (lambda r: r[jnp.arange(2), jnp.arange(3)], ValueError, "indices for a Ref"),
        (lambda r: pyjax.ref.set(r, ..., 1.0), ValueError, "Invalid shape for `set`"),
        (lambda r: pyjax.ref.set(r, ..., jnp.zeros(2)), ValueError, r"the value is float32\[2\]"),
        (lambda r: pyjax.ref.set(r, 0, 1), ValueError, "Invalid dtype for `set`"),
        (lambda r: pyjax.ref.swap(r, 0, jnp.int32(1)), ValueError, "Invalid dtype for `swap`"),
        (lambda r: pyjax.ref.addupdate(r, 0, 1), ValueError, "Invalid dtype for `addupdate`"),
        (lambda r: pyjax.ref.set(r, ..., r), ValueError, "Cannot store a Ref into another Ref"),
        (lambda r: pyjax.ref.set(r, ..., r.at[0:3]), TypeError, "part of a Ref as a value"),
        (lambda r: pyjax.ref.get(jnp.ones(3)), ValueError, "Can only call `get` on a `Ref`"),
        (lambda r: pyjax.freeze(jnp.ones(3)), ValueError, "Can only call `freeze` on a `Ref`"),
        (lambda r: pyjax.new_ref(r), TypeError, "new_ref got a Ref"),
        (lambda r: pyjax.new_ref([1.0]), TypeError, "is not a valid JAX type"),
        (lambda r: pyjax.new_ref(1.0, kind="x"), ValueError, "new_ref got kind='x'"),
        (lambda r: pyjax.new_ref(1.0, memory_space="x"), NotImplementedError, "memory_space='x'"),
        (lambda r: r + 1, TypeError, "(unsupported operand|got a Ref)"),
        (lambda r: jnp.sin(r), TypeError, "(requires ndarray|got a Ref)"),
        (lambda r: lax.sin(r), TypeError, "got a Ref, Ref"),
        (lambda r: pyjax.pure_callback(lambda x: x, r.aval.inner_aval, r), TypeError, "got a Ref"),
    ],
)
def test_errors(use, kind, text, run) -> None:
    ref = pyjax.new_ref(jnp.arange(3.0))
    with pytest.raises(kind, match=text):
        run(use)(ref)
    assert ref[...].tolist() == [0, 1, 2]


def test_not_an_array_or_sequence() -> None:
    ref = pyjax.new_ref(jnp.arange(3.0))
    with pytest.raises(TypeError, match="was taken for an array"):
        np.asarray(ref)
    with pytest.raises(TypeError, match=r"Iterate over ref\[...\]"):
        list(ref)


def test_messages_say_where_why_and_what_to_do() -> None:
    ref = pyjax.new_ref(jnp.arange(3.0))
    with pytest.raises(ValueError) as caught:
        ref[0:2] = jnp.zeros(3)
    what, where, why, fix = str(caught.value).split("\n")
    assert "chosen part of Ref{float32[3]} is float32[2]" in what
    assert "test_ref_access.py" in where and "ref[0:2] = jnp.zeros(3)" in where
    assert "not broadcast" in why
    assert "jnp.broadcast_to(value, (2,))" in fix
