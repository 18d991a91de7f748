"""Programs for axes of any sizes: which share code, and that their bits are those of programs that
are compiled for their shapes."""

import threading

import numpy as np
import pytest

import pyjax
from pyjax import lax
from pyjax import numpy as jnp
from pyjax.runtime import dispatch, shape_generic
from pyjax.runtime.shape_axes import NO_NUMBERS, axes_of
from tests.own_cache import own_cache
from xla_backend.targets.cpu import size_classes

FLOATS = ("float32", "float64", "float16", "bfloat16")
# Programs of an array of any shape with two axes or more.
PROGRAMS = {
    "a row is added": lambda x: x + x[0],
    "outer": lambda x: jnp.ravel(x)[:50][:, None] * jnp.ravel(x)[:70],
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(-1),
    "sum of columns": lambda x: x.sum(0),
    "product": lambda x: x.prod(-1),
    "mean": lambda x: x.mean(),
    "mean of rows": lambda x: x.mean(-1),
    "mean of columns": lambda x: x.mean(0),
    "sum of short rows and others": lambda x: (
        x.reshape(-1, 3, 2).sum((0, 2)) if x.size % 6 == 0 else x.sum()
    ),
    "sum of all, and of columns": lambda x: _together(pyjax.jit(lambda x: (x.sum(), x.sum(0)))(x)),
    "sum of rows, and of all": lambda x: _together(pyjax.jit(lambda x: (x.sum(-1), x.sum()))(x)),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(0),
    "any": lambda x: jnp.any(x > 1),
    "all": lambda x: jnp.all(x > 0, -1),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(-1),
    "softmax": lambda x: pyjax.nn.softmax(x),
    "norm": lambda x: pyjax.jit(lambda x: jnp.sqrt(jnp.sum(x * x, -1)))(x),
    "centred": lambda x: pyjax.jit(lambda x: x - x.mean(-1, keepdims=True))(x),
    "sum of exp": lambda x: pyjax.jit(lambda x: jnp.exp(x).sum(0))(x),
    "count": lambda x: jnp.sum(x > 0),
    "where": lambda x: jnp.where(x > 0, x, x[0]),
    "rows": lambda x: x[jnp.asarray([0, -1, 0, 1])],
    "taken": lambda x: jnp.take(x, jnp.asarray([1, 99999, -1]), axis=-1),
    "along": lambda x: jnp.take_along_axis(x, jnp.zeros_like(x[..., :1], int) - 1, -1),
    "argmax of all": lambda x: jnp.argmax(x),
    "flattened": lambda x: pyjax.jit(lambda x: jnp.cos(jnp.ravel(x)) * 2)(x),
    "unflattened": lambda x: pyjax.jit(lambda y: y.reshape(2, -1).sum(0))(
        jnp.ravel(x)[: x.size // 2 * 2]
    ),
    "argmax": lambda x: jnp.argmax(x, -1),
    "argmin": lambda x: jnp.argmin(jnp.floor(x), 0),
    "set": lambda x: x.at[jnp.asarray([1, -1, 99999, 1])].set(7),
    "rows are set": lambda x: x.at[jnp.asarray([1, 0, 1])].set(x[:1] + 1),
    "added": lambda x: x.at[jnp.asarray([1, -1, 1, 0, 1])].add(x[1]),
    "one axis": lambda x: jnp.ravel(x).at[jnp.asarray([5, -1, 5, 2, 5])].add(jnp.ravel(x)[:1]),
    "largest": lambda x: x.at[jnp.asarray([1, -1, 1, 0, 1])].max(x[1]),
    "columns": lambda x: x.at[..., jnp.asarray([1, 0, 1])].multiply(3),
    "bits": lambda x: pyjax.random.bits(pyjax.random.key(3), x.shape),
    "uniform": lambda x: pyjax.random.uniform(pyjax.random.key(3), x.shape, x.dtype),
    "normal": lambda x: pyjax.random.normal(pyjax.random.key(3), x.shape, x.dtype),
    "arange": lambda x: jnp.arange(x.size),
    "zeros": lambda x: jnp.zeros((*x.shape, 70_000 // x.size + 1)),
}
SHAPES = [(3, 4), (2, 2), (7, 64), (64, 7), (33, 129), (1, 40), (40, 1), (2, 3000), (3000, 3)]
SHAPES += [(7, 37, 53), (16, 4, 64), (30, 1, 20)]
MORE_SHAPES = [(5, 1000), (1000, 5), (300, 200), (128, 128), (3000, 2), (3, 3000), (16, 16)]
MORE_SHAPES += [(15, 31), (255, 17), (17, 255), (4, 8000), (100, 650), (2, 3, 4), (1, 30, 20)]


@pytest.fixture(autouse=True)
def _no_programs():
    """Nor any that wait, on first code, to be met again before they are made for all sizes."""
    pyjax.clear_caches()
    before = pyjax.config.jax_first_code
    pyjax.config.update("jax_first_code", False)
    yield
    pyjax.config.update("jax_first_code", before)


def _together(arrays):
    return np.concatenate([np.ravel(x) for x in arrays])


def _classes_made_by(run) -> int:
    before = len(shape_generic._makers_for_axes)
    run()
    return len(shape_generic._makers_for_axes) - before


def _array(shape, dtype):
    rng = np.random.default_rng(len(shape) * 1000 + shape[0])
    return jnp.asarray(3 * rng.standard_normal(shape), dtype)


_ORDERED = ("any", "all", "count", "where", "softmax", "max", "min", "largest")
_ORDERED += ("argmax", "argmax of all", "argmin")


def _specialised(monkeypatch, run):
    """The result of programs that are compiled for their shapes."""
    pyjax.clear_caches()
    with monkeypatch.context() as patch:
        patch.setattr(shape_generic, "find", lambda *args, **named: None)
        result = np.asarray(run())
    pyjax.clear_caches()
    return result


def _check_bits(monkeypatch, program, arrays):
    made = _classes_made_by(lambda: [program(x) for x in arrays])
    assert made
    for x in arrays:
        ours = np.asarray(program(x))
        expected = _specialised(monkeypatch, lambda x=x: program(x))
        assert ours.dtype == expected.dtype and ours.shape == expected.shape
        assert ours.tobytes() == expected.tobytes(), x.shape


@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_the_compiled_program(name, monkeypatch):
    _check_bits(monkeypatch, PROGRAMS[name], [_array(s, "float32") for s in SHAPES])


def test_bits_for_any_number_of_threads(monkeypatch):
    x = _array((700, 900), "float32")  # large enough for several
    for threads in (1, 2, 7):
        with pyjax.num_threads(threads):
            for name in ("mean of rows", "sum of columns", "a row is added", "rows", "added"):
                _check_bits(monkeypatch, PROGRAMS[name], [x])


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "complex64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_of_all_types(name, dtype, threads, monkeypatch):
    if dtype == "complex64" and name in _ORDERED:
        pytest.skip("complex numbers have no order")
    if name in ("uniform", "normal") and dtype not in ("float32", "float64"):
        pytest.skip("random numbers of this type are compiled for their shapes, or there are none")
    with pyjax.enable_x64(True), pyjax.num_threads(threads):
        arrays = [_array(s, dtype) for s in SHAPES + MORE_SHAPES]
        _check_bits(monkeypatch, PROGRAMS[name], arrays)


@pytest.mark.parametrize("name", ["sum", "sum of rows", "mean of columns", "a row is added"])
def test_special_values(name, monkeypatch):
    x = np.full((33, 70), -0.0, np.float32)
    _check_bits(monkeypatch, PROGRAMS[name], [jnp.asarray(x)])
    x[3, 5], x[20, 2], x[20, 3] = np.nan, np.inf, -np.inf
    _check_bits(monkeypatch, PROGRAMS[name], [jnp.asarray(x)])


def test_the_first_argmax_of_any_type_says_nothing():
    """Warnings are errors here: some of NumPy's types warn where they compare nan."""
    for dtype in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"):
        for n in (5, 40, 300):
            assert int(jnp.argmax(jnp.zeros(n, dtype).at[3].set(1))) == 3


def test_shapes_share_code():
    def run(*shape):
        return lambda: jnp.sum(jnp.asarray(np.ones(shape, np.float32)), axis=-1)

    assert _classes_made_by(run(30, 70)) == 1
    for shape in [(31, 71), (2, 3, 70), (40, 1, 33), (5, 5, 5, 5), (8, 8)]:
        assert _classes_made_by(run(*shape)) == 0
    assert _classes_made_by(run(70)) == 1  # one axis
    assert float(run(31, 71)()[0]) == 71


def _axes(f, *shapes):
    avals = [pyjax.ShapeDtypeStruct(s, np.float32) for s in shapes]
    return axes_of(pyjax.make_jaxpr(f)(*avals))


@pytest.mark.parametrize(
    "f, shapes, sizes",
    [
        (jnp.exp, [(2, 3, 4)], (24,)),
        (jnp.add, [(2, 3, 4), (4,)], (6, 4)),
        (jnp.add, [(2, 3, 4), (3, 4)], (2, 12)),
        (jnp.add, [(2, 3, 4), (3, 1)], (2, 3, 4)),
        (lambda x: x.sum((0, 1)), [(2, 3, 4)], (6, 4)),
        (lambda x: x.sum(1), [(2, 3, 4)], (2, 3, 4)),
        (lambda x: x.max((1, 3)), [(2, 1, 3, 4)], (6, 4)),
        (lambda x: x[:, None] * x, [(5,)], (5,)),
        (lambda x: x.reshape(1, 6, 1, 4) + 1, [(6, 4)], (24,)),
        (lambda x: x.reshape(-1) + 1, [(6, 4)], (24,)),
    ],
)
def test_axes(f, shapes, sizes):
    assert _axes(f, *shapes).sizes == sizes


@pytest.mark.parametrize(
    "f, shapes",
    [
        (lambda x: x.reshape(4, 6), [(6, 4)]),
        (lambda x: x.reshape(-1) + x.sum(0).sum(), [(6, 4)]),
        (lambda x: x @ x, [(4, 4)]),
        (lambda x: x.sum(0), [(1, 4)]),
        (lambda x: x + 1, [(0, 4)]),
        (lambda x: (x, 2.0), [(3, 4)]),
        (lambda x: x.at[x[0].astype(int)].apply(jnp.sin), [(3, 4)]),
        (lambda x: lax.convert_element_type(x, np.int32) + NO_NUMBERS[5], [(3, 4)]),
        (lambda x: x.sum(0) + lax.convert_element_type(np.float32(1999999872), int), [(3, 4)]),
    ],
)
def test_other_programs_have_none(f, shapes):
    assert _axes(f, *shapes) is None


def test_what_a_mean_divides_by_is_no_part_of_the_structure():
    mean = lambda x: x.mean(-1)
    first, second = _axes(mean, (3, 5)), _axes(mean, (4, 7))
    assert first.structure == second.structure
    assert [float(s) for s in second.scalars] == [7.0]
    assert first.structure != _axes(lambda x: x.mean(0), (3, 5)).structure


def test_operands_of_one_size_are_told_from_those_of_several():
    """In x + y of [5,5] and [5] the row is the last axis, in x + y[:, None] the first."""
    row, column = (lambda x, y: x + y), (lambda x, y: x + y[:, None])
    assert _axes(row, (5, 5), (5,)).structure != _axes(column, (5, 5), (5,)).structure
    x, y = np.arange(25.0, dtype=np.float32).reshape(5, 5), np.arange(5.0, dtype=np.float32)
    for f in (row, column):
        np.testing.assert_array_equal(pyjax.jit(f)(x, y), f(x, y))


@pytest.mark.parametrize("index", [[0, 29, -1, -30], [35, -31, 5, 30]])
@pytest.mark.parametrize("mode", ["fill", "clip", "wrap", "promise_in_bounds"])
def test_indices_out_of_bounds(mode, index, monkeypatch):
    x, i = jnp.asarray(np.arange(30 * 17.0).reshape(30, 17)), jnp.asarray(index)
    if mode == "promise_in_bounds":
        i = abs(i) % 30
    run = lambda: x.at[i].get(mode=mode)
    ours = np.asarray(run())
    assert ours.tobytes() == _specialised(monkeypatch, run).tobytes()


def test_indices_of_known_bounds_may_be_out_of_those_of_the_array(monkeypatch):
    """They are compared with the array's size, and not with what stands for it."""

    def program(x):
        return pyjax.jit(lambda x: x.at[jnp.arange(64) * 200 % 97].get(mode="clip"))(x)

    with pyjax.enable_x64(True):
        for n in (53, 96, 300):
            x = jnp.arange(n, dtype=jnp.int32)
            got = _specialised(monkeypatch, lambda: program(x)), program(x)  # noqa: B023
            expected = np.minimum(np.arange(64) * 200 % 97, n - 1)
            for each in got:
                np.testing.assert_array_equal(each, expected)


def test_a_program_that_is_called_often_is_compiled_for_its_shapes(monkeypatch):
    compiled = []
    find = dispatch.find_or_compile
    monkeypatch.setattr(
        dispatch, "find_or_compile", lambda *args: compiled.append(1) or find(*args)
    )
    monkeypatch.setattr(shape_generic, "_CALLS", 3)
    x = jnp.asarray(np.linspace(0, 1, 700 * 9, dtype=np.float32).reshape(700, 9))
    results = []
    for call in range(1, 6):
        results.append(np.asarray(jnp.mean(x, -1)).tobytes())
        assert len(compiled) == (call >= 3)
    assert len(set(results)) == 1


@pytest.mark.parametrize("n", [6, 7, 4096])
def test_streams_of_random_bits_are_told_apart(n, monkeypatch):
    run = lambda: pyjax.random.bits(pyjax.random.key(3), (n,))
    new = np.asarray(run())
    with pyjax.threefry_partitionable(False):
        old = np.asarray(run())
        assert old.tobytes() == _specialised(monkeypatch, run).tobytes() != new.tobytes()


def test_fast_math_looks_at_numbers():
    x = jnp.ones((20, 30))
    mean = pyjax.jit(lambda x: x.mean(-1))
    assert _classes_made_by(lambda: mean(x)) == 1
    pyjax.clear_caches()
    fast = pyjax.jit(lambda x: x.mean(-1), compiler_options={"xla_cpu_enable_fast_math": True})
    assert _classes_made_by(lambda: fast(x)) == 0


def test_a_class_without_code_is_not_kept(recwarn):
    """The first sizes that it met are summed in parts, which has no code for all sizes."""
    x = jnp.asarray(np.arange(4 * 90_000, dtype=np.float32).reshape(4, -1) % 7)
    unusual = pyjax.jit(lambda x: (x * 1.2345 + 5.4321).sum(-1))
    for _ in range(2):
        unusual(x)
        pyjax.clear_caches()
    unusual(x[:, :50])
    assert not recwarn.list


@pytest.mark.parametrize("known", [1, 2, 5])
def test_the_first_sizes_of_a_process_are_kept(known, tmp_path, monkeypatch):
    """However many there were on disk: another process looks for their order no more."""
    with own_cache(tmp_path, monkeypatch):
        sizes = [(4, 90 + n) for n in range(known)]
        for shapes in (sizes, [(4, 300)]):
            pyjax.clear_caches()
            for shape in shapes:
                jnp.sum(np.ones(shape, np.float32), axis=-1)
        pyjax.clear_caches()
        monkeypatch.setattr(size_classes, "_make_compiler", lambda *_: pytest.fail("compiled"))
        assert jnp.sum(np.ones((4, 300), np.float32), axis=-1).tolist() == [300] * 4


def test_threads_that_meet_sizes_at_once():
    results: dict[int, list[float]] = {}

    def run(k):
        ones = [np.ones((n, 33), np.float32) for n in range(2, 40)]
        results[k] = [float(jnp.sum(jnp.asarray(x))) for x in ones]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [*results.values()] == [[33.0 * n for n in range(2, 40)]] * 4
