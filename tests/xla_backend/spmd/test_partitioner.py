"""Partitioned programs against whole ones, and the collectives of known patterns."""

import numpy as np
import pytest
from spmd_checks import check, collectives, partitioned, program

import xla_backend
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.module import InputOutputAlias
from xla_backend.spmd.pipeline import prepare_and_partition

AB = "mesh['a'=2,'b'=2]"
ROWS, COLUMNS = f"{{{AB}, [{{'a'}}, {{}}]}}", f"{{{AB}, [{{}}, {{'a'}}]}}"
WHOLE = f"{{{AB}, [{{}}, {{}}]}}"


def param(name, shape, number, sharding):
    return f"{name} = {shape} parameter({number}), sharding={sharding}\n"


# name -> (shardings of x f32[8,12] and y f32[12,8], body with SHARDING for the root's, root's
# sharding, collectives)
MATRICES = {
    "rows": (ROWS, WHOLE, ROWS, {}),
    "columns": (WHOLE, COLUMNS, COLUMNS, {}),
    "both": (ROWS, f"{{{AB}, [{{}}, {{'b'}}]}}", f"{{{AB}, [{{'a'}}, {{'b'}}]}}", {}),
    "contracted": (COLUMNS, ROWS, WHOLE, {"all-reduce": 1}),
    "contracted to rows": (COLUMNS, ROWS, ROWS, {"reduce-scatter": 1}),
    "gathered": (ROWS, WHOLE, WHOLE, {"all-gather": 1}),
    "to columns": (ROWS, WHOLE, COLUMNS, {"all-to-all": 1}),
    "both contracted": (
        f"{{{AB}, [{{}}, {{'a','b'}}]}}",
        f"{{{AB}, [{{'a','b'}}, {{}}]}}",
        WHOLE,
        {"all-reduce": 1},
    ),
}


@pytest.mark.parametrize("name", MATRICES)
def test_products(name):
    x, y, root, wanted = MATRICES[name]
    done = check(
        param("x", "f32[8,12]", 0, x)
        + param("y", "f32[12,8]", 1, y)
        + "ROOT r = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        + f"sharding={root}",
        4,
    )
    assert collectives(done) == wanted


# root instruction on x = f32[8,4,12]; shardings of x; of the result
S3 = f"{{{AB}, [{{'a'}}, {{}}, {{'b'}}]}}"
ONE = {
    "negate": ("f32[8,4,12] negate(x)", S3, S3, {}),
    "transpose": (
        "f32[12,8,4] transpose(x), dimensions={2,0,1}",
        S3,
        f"{{{AB}, [{{'b'}}, {{'a'}}, {{}}]}}",
        {},
    ),
    "merge": ("f32[32,12] reshape(x)", S3, f"{{{AB}, [{{'a'}}, {{'b'}}]}}", {}),
    "split": (
        "f32[2,4,4,3,4] reshape(x)",
        S3,
        f"{{{AB}, [{{'a'}}, {{}}, {{}}, {{}}, {{}}]}}",
        {"all-gather": 1},
    ),
    "split evenly": (
        "f32[2,4,4,4,3] reshape(x)",
        S3,
        f"{{{AB}, [{{'a'}}, {{}}, {{}}, {{'b'}}, {{}}]}}",
        {},
    ),
    "merge all": ("f32[384] reshape(x)", S3, f"{{{AB}, [{{'a','b'}}]}}", {"all-gather": 1}),
    "reverse": ("f32[8,4,12] reverse(x), dimensions={1}", S3, S3, {}),
    "slice": ("f32[8,2,12] slice(x), slice={[0:8], [1:3], [0:12]}", S3, S3, {}),
    "slice within parts": (
        "f32[4,4,12] slice(x), slice={[2:6], [0:4], [0:12]}", S3, S3, {},
    ),
    "slice of parts": (
        "f32[6,4,12] slice(x), slice={[1:7], [0:4], [0:12]}", S3, S3, {},
    ),
    "slice from the neighbour": (
        "f32[6,4,12] slice(x), slice={[2:8], [0:4], [0:12]}", S3, S3, {"collective-permute": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_one_operand(name):
    line, x, root, wanted = ONE[name]
    done = check(param("x", "f32[8,4,12]", 0, x) + f"ROOT r = {line}, sharding={root}", 4)
    assert collectives(done) == wanted


def test_iota_counts_from_the_parts_position():
    check(f"ROOT r = s32[8,4] iota(), iota_dimension=0, sharding={ROWS}", 4)
    check(f"ROOT r = f32[8,4] iota(), iota_dimension=1, sharding={COLUMNS}", 4)
    for type in ("f8e4m3", "bf16", "c64", "s8"):  # 26 is not 25 rounded and 1
        check(f"ROOT r = {type}[100,4] iota(), iota_dimension=0, sharding={ROWS}", 4)


def test_constants_are_cut():
    check(f"ROOT r = s32[2,2] constant({{ {{1,2}}, {{3,4}} }}), sharding={COLUMNS}", 4)


@pytest.mark.parametrize("dimensions", ["0", "1", "0,1"])
def test_sums(dimensions):
    left = {"0": "f32[12]", "1": "f32[8]", "0,1": "f32[]"}[dimensions]
    done = check(
        param("x", "f32[8,12]", 0, f"{{{AB}, [{{'a'}}, {{'b'}}]}}")
        + "z = f32[] constant(0)\n"
        + f"ROOT r = {left} reduce(x, z), dimensions={{{dimensions}}}, to_apply=sum, "
        + "sharding={replicated}",
        4,
    )
    assert collectives(done)["all-reduce"] == 1


def test_a_start_that_is_not_neutral_is_added_once():
    done = check(
        param("x", "f32[8,12]", 0, ROWS)
        + "z = f32[] constant(5)\n"
        + "ROOT r = f32[12] reduce(x, z), dimensions={0}, to_apply=sum, sharding={replicated}",
        4,
    )
    assert collectives(done) == {"all-to-all": 1, "all-gather": 1}


def test_tiles_of_devices():
    """What XLA's tile assignments spell, transposed ones and replicated rest included."""
    check(
        param("x", "f32[8,12]", 0, "{devices=[2,2]<=[2,2]T(1,0)}")
        + param("y", "f32[12,8]", 1, "{devices=[2,1,2]<=[4] last_tile_dim_replicate}")
        + "ROOT r = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        + "sharding={devices=[1,4]<=[4]}",
        4,
    )


LOOP = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
body { s = (s32[], f32[8,8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  y = f32[8,8] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = f32[] constant(0.0625)
  h = f32[8,8] broadcast(k), dimensions={}
  z = f32[8,8] multiply(d, h)
  ROOT t = (s32[], f32[8,8], f32[8,8]) tuple(j, z, y) }
condition { s = (s32[], f32[8,8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
"""


@pytest.mark.parametrize("x", [ROWS, COLUMNS, WHOLE])
@pytest.mark.parametrize("y", [ROWS, COLUMNS, WHOLE])
def test_loops(x, y):
    check(
        param("x", "f32[8,8]", 0, x)
        + param("y", "f32[8,8]", 1, y)
        + f"""z = s32[] constant(0)
        t = (s32[], f32[8,8], f32[8,8]) tuple(z, x, y)
        w = (s32[], f32[8,8], f32[8,8]) while(t), condition=condition, body=body
        ROOT r = f32[8,8] get-tuple-element(w), index=1, sharding={ROWS}""",
        4,
        LOOP,
    )


def test_branches():
    called = """then { p = (f32[8,12], f32[12]) parameter(0)
      ROOT r = f32[8,12] get-tuple-element(p), index=0 }
    otherwise { p = (f32[8,12], f32[12]) parameter(0)
      y = f32[12] get-tuple-element(p), index=1
      ROOT b = f32[8,12] broadcast(y), dimensions={1} }
    """
    check(
        param("x", "f32[8,12]", 0, ROWS)
        + param("y", "f32[12]", 1, f"{{{AB}, [{{'b'}}]}}")
        + param("p", "pred[]", 2, "{replicated}")
        + f"""t = (f32[8,12], f32[12]) tuple(x, y)
        ROOT r = f32[8,12] conditional(p, t, t), true_computation=then,
          false_computation=otherwise, sharding={COLUMNS}""",
        4,
        called,
    )


def test_manual_parts():
    """What shard_map is lowered to."""
    check_manual = f"""x = f32[8,12] parameter(0), sharding={ROWS}
      c = f32[8,12] custom-call(x), custom_call_target="Sharding", sharding={ROWS}
      m = f32[4,12] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
      s = f32[4,12] all-reduce(m), channel_id=1, use_global_device_ids=true,
        replica_groups={{{{0,2}},{{1,3}}}}, to_apply=sum, sharding={{manual}}
      ROOT r = f32[4,12] custom-call(s), custom_call_target="SPMDShardToFullShape", sharding={WHOLE}
    """
    done = partitioned(program(check_manual, 4))
    x = np.arange(96, dtype=np.float32).reshape(8, 12)
    for (got,) in evaluate_partitioned(done, [[x[:4]], [x[:4]], [x[4:]], [x[4:]]]):
        np.testing.assert_array_equal(got, x[:4] + x[4:])


def test_manual_along_one_axis():
    """What shard_map over some axes is lowered to: along the others the compiler cuts, and what
    devices have along the manual one is neither cut nor joined along it."""
    inside = f"sharding={{{AB}, replicated, manual={{'a'}}}}"
    done = partitioned(
        program(
            f"""x = f32[8,12] parameter(0), sharding={{{AB}, [{{'a'}}, {{'b'}}]}}
      y = f32[4,12] parameter(1), sharding={ROWS}
      c = f32[8,12] custom-call(x), custom_call_target="Sharding",
        sharding={{{AB}, [{{'a', ?}}, {{?}}]}}
      m = f32[4,12] custom-call(c), custom_call_target="SPMDFullToShardShape", {inside}
      s = f32[4,12] all-reduce(m), channel_id=1, use_global_device_ids=true,
        replica_groups={{{{0,2}},{{1,3}}}}, to_apply=sum, {inside}
      p = f32[4,12] add(s, y)
      w = f32[8,12] custom-call(p), custom_call_target="SPMDShardToFullShape",
        sharding={{{AB}, [{{'a', ?}}, {{?}}]}}
      ROOT r = f32[8,12] negate(w), sharding={{{AB}, [{{'a'}}, {{'b'}}]}}""",
            4,
        )
    )
    assert "f32[4,6]{1,0} all-reduce" in str(done)
    x = np.arange(96, dtype=np.float32).reshape(8, 12)
    y = np.arange(48, dtype=np.float32).reshape(4, 12)
    given = [[x[4 * a : 4 * a + 4, 6 * b : 6 * b + 6], y[2 * a : 2 * a + 2]]
             for a in (0, 1) for b in (0, 1)]  # fmt: skip
    want = -(x[:4] + x[4:] + y)
    for device, (got,) in enumerate(evaluate_partitioned(done, given)):
        np.testing.assert_array_equal(got, want[:, :6] if device % 2 == 0 else want[:, 6:])


MLP = "mesh['d'=2,'m'=2]"


def test_megatron():
    """Two layers, the first cut by columns and the second by rows: one all-reduce."""
    done = check(
        param("x", "f32[8,6]", 0, f"{{{MLP}, [{{}}, {{}}]}}")
        + param("v", "f32[6,16]", 1, f"{{{MLP}, [{{}}, {{'m'}}]}}")
        + param("w", "f32[16,6]", 2, f"{{{MLP}, [{{'m'}}, {{}}]}}")
        + f"""h = f32[8,16] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        t = f32[8,16] negate(h)
        ROOT y = f32[8,6] dot(t, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
          sharding={{{MLP}, [{{}}, {{}}]}}""",
        4,
    )
    assert collectives(done) == {"all-reduce": 1}


def test_fully_sharded_parameters():
    """A batch in parts, parameters in parts along the same axis: gathered for the product, and
    their gradient is scattered."""
    done = check(
        param("x", "f32[8,6]", 0, f"{{{MLP}, [{{'d'}}, {{}}]}}")
        + param("w", "f32[6,4]", 1, f"{{{MLP}, [{{'d'}}, {{}}]}}")
        + f"""h = f32[8,4] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        g = f32[6,4] dot(x, h), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}},
          sharding={{{MLP}, [{{'d'}}, {{}}]}}
        ROOT n = f32[6,4] subtract(w, g), sharding={{{MLP}, [{{'d'}}, {{}}]}}""",
        4,
    )
    assert collectives(done) == {"all-gather": 1, "reduce-scatter": 1}


RETURNED = {
    "what a constraint cuts otherwise": f"""
      n = f32[8,12] negate(x)
      c = f32[8,12] custom-call(n), custom_call_target="Sharding", sharding={COLUMNS}
      ROOT r = (f32[8,12], f32[8,12]) tuple(c, x), sharding={{{ROWS}, {WHOLE}}}""",
    "one value twice": f"""
      n = f32[8,12] negate(x)
      ROOT r = (f32[8,12], f32[8,12]) tuple(n, n), sharding={{{ROWS}, {COLUMNS}}}""",
    "a call": f"ROOT r = f32[8,12] call(x), to_apply=negated, sharding={COLUMNS}",
}


@pytest.mark.parametrize("name", RETURNED)
def test_results_are_cut_as_the_root_says(name):
    called = "negated { p = f32[8,12] parameter(0)\n ROOT n = f32[8,12] negate(p) }\n"
    check(param("x", "f32[8,12]", 0, ROWS) + RETURNED[name], 4, called)


def test_results_whose_parts_would_be_padded_are_not_cut():
    """A constraint may cut them so; those outside could not take them."""
    module = program(
        param("x", "f32[12]", 0, "{devices=[4]<=[4]}")
        + """s = f32[11] slice(x), slice={[0:11]}
        ROOT c = (f32[11]) tuple(s)""",
        4,
    )
    (result,) = prepare_and_partition(module).results
    assert str(result) == "{replicated}"


def test_loops_that_share_a_body_are_cut_each_in_its_way():
    called = """body { p = (s32[], f32[8,8]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      o = s32[] constant(1)
      j = s32[] add(i, o)
      x = f32[8,8] get-tuple-element(p), index=1
      y = f32[8,8] negate(x)
      ROOT t = (s32[], f32[8,8]) tuple(j, y) }
    condition { p = (s32[], f32[8,8]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      o = s32[] constant(3)
      ROOT c = pred[] compare(i, o), direction=LT }
    """
    check(
        param("x", "f32[8,8]", 0, ROWS)
        + param("y", "f32[8,8]", 1, COLUMNS)
        + f"""z = s32[] constant(0)
        t = (s32[], f32[8,8]) tuple(z, x)
        u = (s32[], f32[8,8]) tuple(z, y)
        v = (s32[], f32[8,8]) while(t), condition=condition, body=body
        w = (s32[], f32[8,8]) while(u), condition=condition, body=body
        a = f32[8,8] get-tuple-element(v), index=1
        b = f32[8,8] get-tuple-element(w), index=1
        ROOT r = (f32[8,8], f32[8,8]) tuple(a, b), sharding={{{ROWS}, {COLUMNS}}}""",
        4,
        called,
    )


# -- native code -----------------------------------------------------------------------------------


def test_native_programs_are_partitioned():
    """From a module with shardings to threads that exchange parts."""
    module = program(
        param("x", "f32[64,96]", 0, ROWS)
        + param("y", "f32[96,64]", 1, f"{{{AB}, [{{'b'}}, {{}}]}}")
        + "d = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        + f"ROOT r = f32[64,64] tanh(d), sharding={{{AB}, [{{'a'}}, {{'b'}}]}}",
        4,
    )
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 96)).astype("f4"), rng.normal(size=(96, 64)).astype("f4")
    run = xla_backend.compile(module).loaded
    given = [[x[32 * a : 32 * a + 32], y[48 * b : 48 * b + 48]] for a in (0, 1) for b in (0, 1)]
    got = run.run_arrays_together(given)
    want = np.tanh(x @ y)
    for device, (part,) in enumerate(got):
        a, b = divmod(device, 2)
        wanted = want[32 * a : 32 * a + 32, 32 * b : 32 * b + 32]
        np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-4)


def test_native_programs_exchange_together():
    """Gathers, sums and scattered sums of several shapes and types, each kind at once."""
    module = program(
        param("x", "f32[8,6]", 0, f"{{{AB}, [{{'a'}}, {{}}]}}")
        + param("y", "s32[4,3]", 1, f"{{{AB}, [{{'a'}}, {{}}]}}")
        + param("w", "f32[8]", 2, f"{{{AB}, [{{'a'}}]}}")
        + "z = f32[] constant(0)\n"
        "s = f32[6] reduce(x, z), dimensions={0}, to_apply=sum\n"
        "t = f32[] reduce(w, z), dimensions={0}, to_apply=sum\n"
        "g = f32[6,6] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "b = f32[8,6] broadcast(w), dimensions={0}\n"
        "h = f32[6,6] dot(b, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "v = f32[8] negate(w)\nu = s32[4,3] negate(y)\n"
        "ROOT r = (f32[6], f32[], s32[4,3], f32[8], f32[6,6], f32[6,6]) tuple(s, t, u, v, g, h), "
        f"sharding={{{{{AB}, [{{}}]}}, {{replicated}}, {WHOLE}, {{{AB}, [{{}}]}}, {ROWS}, {ROWS}}}",
        4,
    )
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 6)).astype("f4"), rng.normal(size=8).astype("f4")
    y = np.arange(12, dtype=np.int32).reshape(4, 3)
    compiled = xla_backend.compile(module)
    text = compiled.texts()["hlo"]
    for opcode in ("all-reduce", "all-gather", "reduce-scatter"):
        assert text.count(f" {opcode}(") == 1, text
    given = [[x[4 * a : 4 * a + 4], y[2 * a : 2 * a + 2], w[4 * a : 4 * a + 4]]
             for a in (0, 0, 1, 1)]  # fmt: skip
    want = [x.sum(0), w.sum(), -y, -w, x.T @ x, (w[:, None] * np.ones((1, 6))).T @ x]
    for device, got in enumerate(compiled.loaded.run_arrays_together(given)):
        half = slice(0, 3) if device < 2 else slice(3, 6)
        for number, (value, wanted) in enumerate(zip(got, want, strict=True)):
            wanted = wanted[half] if number > 3 else wanted
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)


# -- what cannot be --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            param("x", "f32[7]", 0, "{devices=[4]<=[4]}") + "ROOT r = f32[7] negate(x)",
            r"f32\[7\] cannot be cut into equal parts",
        ),
        (
            param("x", "f32[8]", 0, f"{{{AB}, [{{'a'}}]}}")
            + "ROOT r = f32[8] negate(x), sharding={mesh['c'=4], device_ids=(1,0,2,3), [{'c'}]}",
            "list devices in different orders",
        ),
        (
            param("x", "f32[8]", 0, "{mesh['c'=2], [{'c'}]}") + "ROOT r = f32[8] negate(x)",
            "no arrangement of the 4 participants",
        ),
        (
            param("x", "f32[8]", 0, "{devices=[4]<=[4]}")
            + "t = token[] after-all()\nROOT r = (f32[8], token[]) infeed(t)",
            r"%r \(infeed\) would be done on each of the 4 devices",
        ),
    ],
)
def test_errors(body, message):
    with pytest.raises(UnimplementedError, match=message):
        partitioned(program(body, 4))


def test_done_once():
    """The first device draws, and the others get its numbers, as parts of what all have."""
    sharding = "sharding={devices=[4]<=[4]}"
    body = "f32[8] rng(a, b), distribution=rng_uniform"
    done = partitioned(
        program(
            param("x", "f32[8]", 0, "{devices=[4]<=[4]}")
            + "a = f32[] constant(0)\nb = f32[] constant(1)\n"
            + f"r = {body}\nROOT s = f32[8] add(x, r), {sharding}",
            4,
        )
    )
    nodes = [n.opcode.value for n in done.entry.instructions]
    assert nodes.count("collective-broadcast") == 1
    (drawn,) = [n for c in done.computations for n in c.instructions if n.opcode.value == "rng"]
    assert drawn.parent is not done.entry and drawn.shape.dimensions == (8,)
    chosen = next(n for n in done.entry.instructions if n.opcode.value == "conditional")
    assert chosen.called[0] is drawn.parent and chosen.operands[0].opcode.value == "compare"


# shardings of the results x + x and -x of a donated x in rows -> the one that gets its memory
DONATED = {
    "the first": ((ROWS, ROWS), {(0,): 0}),
    "the other": ((COLUMNS, ROWS), {(1,): 0}),
    "none": ((COLUMNS, COLUMNS), {}),
}


@pytest.mark.parametrize("name", DONATED)
def test_donated_parts_become_results_with_parts_of_their_shape(name):
    (first, second), wanted = DONATED[name]
    module = program(
        param("x", "f32[4,8]", 0, ROWS)
        + "a = f32[4,8] add(x, x)\nb = f32[4,8] negate(x)\n"
        + f"ROOT r = (f32[4,8], f32[4,8]) tuple(a, b), sharding={{{first}, {second}}}",
        4,
    )
    module.aliases = (InputOutputAlias((0,), 0),)
    found = partitioned(module).aliases
    assert {alias.output_index: alias.parameter for alias in found} == wanted


def test_what_an_ordinary_instruction_says_acts():
    done = check(
        param("x", "f32[8,12]", 0, WHOLE)
        + f"s = f32[8,12] multiply(x, x), sharding={ROWS}\n"
        + f"ROOT r = f32[8,12] add(s, x), sharding={WHOLE}",
        4,
    )
    assert collectives(done) == {"all-gather": 1}


def test_values_of_a_group_are_cut_alike():
    alike = ', custom_call_target="Sharding", sharding={unknown shard_as 3}\n'
    done = check(
        param("x", "f32[8,12]", 0, ROWS)
        + param("y", "f32[8,12]", 1, WHOLE)
        + f"a = f32[8,12] custom-call(x){alike}"
        + "z = f32[8,12] multiply(y, y)\n"
        + f"b = f32[8,12] custom-call(z){alike}"
        + "c = f32[8,12] multiply(b, b)\n"
        + f"ROOT r = f32[8,12] add(c, c), sharding={WHOLE}",
        4,
    )
    assert collectives(done) == {"all-gather": 1}
