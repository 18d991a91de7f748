"""Spellings of HLO text and how XLA's own parser and printer give them back; the right-hand sides
were printed by XLA."""

import pytest

from xla_backend.hlo.errors import ParseError
from xla_backend.hlo.parser import parse_module, parse_shape
from xla_backend.hlo.printer import instruction_to_text, module_to_text
from xla_backend.hlo.sharding import parse_sharding

SHARDINGS = {
    "{replicated}": None,
    "{maximal device=3}": None,
    "{manual shard_as 2}": None,
    "{unknown shard_like 2}": None,
    "{unreduced}": None,
    "{}": None,
    "{devices=[2]1,0}": None,
    "{devices=[2,2]<=[4]last_tile_dim_replicate}": "{devices=[2,2]<=[4] last_tile_dim_replicate}",
    "{devices=[2,2]<=[4] last_tile_dims={replicated}}": (
        "{devices=[2,2]<=[4] last_tile_dim_replicate}"
    ),
    "{devices=[2,2]<=[4] last_tile_dims={manual}}": None,
    "{devices=[2,2]<=[4] last_tile_dims={}}": "{devices=[2,2]<=[4]}",
    "{devices=[2,1,2]<=[4] last_tile_dims={manual,replicated}}": (
        "{devices=[2,2]<=[4] last_tile_dim_replicate}"
    ),
    "{devices=[2,2,2]<=[8] last_tile_dims={manual,manual}}": (
        "{devices=[2,4]<=[8] last_tile_dims={manual}}"
    ),
    "{devices=[2,2,2]<=[8] last_tile_dims={replicated,manual}}": (
        "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}"
    ),
    "{devices=[2,2,2]<=[8] last_tile_dims={unreduced,manual}}": (
        "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, unreduced}}"
    ),
    "{devices=[2,2,2,2]<=[16] last_tile_dims={manual,replicated,manual}}": (
        "{devices=[2,4,2]<=[4,2,2]T(0,2,1) last_tile_dims={manual, replicated}}"
    ),
    "{devices=[2,2,2]<=[2,4]T(1,0) last_tile_dims={replicated,manual}}": (
        "{devices=[2,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}"
    ),
    "{devices=[2,2,2]0,1,2,3,4,5,6,7 last_tile_dims={replicated,manual}}": (
        "{devices=[2,2,2]0,2,1,3,4,6,5,7 last_tile_dims={manual, replicated}}"
    ),
    "{devices=[1,4]<=[4] last_tile_dims={manual}}": "{manual}",
    "{devices=[1,4]<=[4] last_tile_dim_replicate}": "{replicated}",
    "{devices=[2,1]<=[2] last_tile_dim_replicate}": "{devices=[2]<=[2]}",
    "{devices=[2,2]3,0,1,2 last_tile_dim_replicate}": (
        "{devices=[2,2]0,3,1,2 last_tile_dim_replicate}"
    ),
    "{devices=[2,2]1,0,3,2 last_tile_dims={manual}}": None,
    "{devices=[4]<=[2,2]T(0,1)}": "{devices=[4]<=[4]}",
    "{devices=[4]<=[2,1,2]T(2,1,0)}": "{devices=[4]<=[2,2]T(1,0)}",
    "{devices=[4,2]<=[2,2,2]T(2,0,1)}": "{devices=[4,2]<=[4,2]T(1,0)}",
    "{devices=[4,2]<=[2,2,2]T(1,2,0)}": "{devices=[4,2]<=[2,4]T(1,0)}",
    "{devices=[4,2]<=[2,2,2]T(0,2,1)}": None,
    "{replicated metadata={op_name='x'} shard_as 1}": (
        '{replicated shard_as 1 metadata={op_name="x"}}'
    ),
    '{devices=[4]<=[4] metadata={{op_name="x"},{op_name="y"}}}': (
        '{devices=[4]<=[4] metadata={{op_name="x"}, {op_name="y"}}}'
    ),
    "{{replicated},{maximal device=0}}": "{{replicated}, {maximal device=0}}",
    '{mesh["a"=2,"b"=4],[{"a"},{"b"}]}': "{mesh['a'=2,'b'=4], [{'a'}, {'b'}]}",
    "{mesh['a'=2,'b'=2], [{'a',?}], replicated={'b'}}": (
        "{mesh['a'=2,'b'=2], [{'a', ?}], replicated={'b'}}"
    ),
    "{mesh['a'=4,'b'=2], [{'a':(1)2,'b'}, {}]}": "{mesh['a'=4,'b'=2], [{'a':(1)2, 'b'}, {}]}",
    "{mesh['a'=4,'c'=2], [{'a'}], unreduced={'c'}}": None,
    "{mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)), [{'a'}]}": None,
    "{mesh['a'=4], []}": "{mesh['a'=4], replicated}",
    "{mesh['a'=4], [{'a'}], metadata={op_name=\"x\"}}": (
        "{mesh['a'=4], [{'a'}], metadata={{op_name=\"x\"}}}"
    ),
}


@pytest.mark.parametrize("text", SHARDINGS)
def test_sharding(text):
    printed = SHARDINGS[text] or text
    sharding = parse_sharding(text)
    assert str(sharding) == printed
    assert parse_sharding(printed) == sharding


BAD_SHARDINGS = {
    "replicated": "expected '{'",
    "{replicated, }": "a part of a sharding",
    "{replicated manual}": "both replicated and manual",
    "{device=3}": "a sharding needs",
    "{maximal}": "needs device=N",
    "{devices=[1]0}": "maximal device",
    "{devices=[4]<=[2,2]}": "expected 'T'",
    "{devices=[4]<=[8]}": "do not match 8 devices",
    "{devices=[4]<=[0]}": "expected \\[dimensions\\]",
    "{devices=[99999999999]<=[99999999999]}": "more than",
    "{devices=[2,2]<=[4] last_tile_dims={maximal}}": "not one of manual",
    "{devices=[4]<=[4] nonsense}": "'nonsense' is no part",
    "{{{replicated}}}": "do not nest",
    "{mesh['a'=2], [{'b'}]}": "no axis 'b'",
    "{mesh['a'=2], [{'a'}, {'a'}]}": "named twice",
    "{mesh['a'=2], [{'a':(1)2}]}": "the whole axis",
    "{mesh['a'=2,'a'=2], [{'a'}]}": "named twice",
    "{mesh['a'=2], device_ids=(0,1,2), [{'a'}]}": "device_ids names 3",
    "{mesh['a'=2], [{'a'}], shard_as 2}": "expected '='",
}


@pytest.mark.parametrize("text", BAD_SHARDINGS)
def test_bad_sharding(text):
    with pytest.raises(ParseError, match=BAD_SHARDINGS[text]):
        parse_sharding(text)


SHAPES = {
    "f32[<=5,3]": "f32[<=5,3]{1,0}",
    "f32[?, <=3]{0,1}": "f32[?,<=3]{0,1}",
    "(b(f32[2]{0:S(1)}), f32[])": None,
    "f32[2]{0:T(8)(2)L(8)E(4)S(1)}": None,
    "f32[8]{0:T(2048)SC(1:200)}": None,
    "f32[2,3]{1,0:SC(0:4)(1:2,7)M(44)}": None,
    "f32[2,3]{1,0:T(8,128)#(u32)*(u64)}": None,
    "f32[2,3]{1,0:T(*,4)}": None,
    "f32[2,3]{1,0:T()}": None,
    "f32[2,3]{1,0:D(D,C)T(8)}": "f32[2,3]{1,0:T(8)}",
    "f32[2,3]{1,0:S(0)L(1)}": ParseError,
    "f32[2,3]{1,0:L(1)E(0)S(0)}": "f32[2,3]{1,0}",
    "f32[]{:S(5)}": None,
    "f32[ 2 , 3 ] { 1 , 0 : T( 8 , 128 ) S( 1 ) }": "f32[2,3]{1,0:T(8,128)S(1)}",
    "u1[3]{0:E(1)}": None,
    "f6e2m3fn[2]{0}": None,
}


@pytest.mark.parametrize("text", SHAPES)
def test_shape(text):
    printed = SHAPES[text] or text
    if printed is ParseError:
        with pytest.raises(ParseError):
            parse_shape(text)
        return
    shape = parse_shape(text)
    assert shape.to_text(layout=True) == printed
    assert parse_shape(printed) == shape and hash(parse_shape(printed)) == hash(shape)


ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"


def root_text(line, before=""):
    module = parse_module(
        f"HloModule m\n{before}ENTRY e {{\n p = f32[4] parameter(0)\n ROOT r = f32[4] {line}\n}}"
    )
    return instruction_to_text(module.entry.root).removeprefix("%r = f32[4]{0} ")


GROUPS = {
    "[4,1]<=[4]": None,
    "[2,2]<=[8]": None,
    "[2,2]<=[2,2]T(0,1)": "[2,2]<=[4]",
    "[2,2]<=[2,1,2]T(2,1,0)": "[2,2]<=[2,2]T(1,0)",
    "{ {0,1} , {2,3} }": "{{0,1},{2,3}}",
    "{{}}": None,
    'mesh["x"=2,"y"=4] {"x","y"}': "mesh['x'=2,'y'=4] {'x','y'}",
    "mesh['x'=2,'y'=4]{'y':(1)2}": "mesh['x'=2,'y'=4] {'y':(1)2}",
    "mesh['x'=2,'y'=4],device_ids=([4,2]T(1,0)) {'y'}": (
        "mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y'}"
    ),
    "mesh['x'=2,'y'=4], device_ids=(0,1,3,2,4,5,6,7) {'y'}": None,
}


@pytest.mark.parametrize("text", GROUPS)
def test_replica_groups(text):
    line = root_text(f"all-reduce(p), replica_groups={text}, to_apply=add", ADD)
    assert line == f"all-reduce(%p), replica_groups={GROUPS[text] or text}, to_apply=%add"


def test_compact_groups_are_their_groups():
    def groups(text):
        module = parse_module(
            f"{ADD}ENTRY e {{ p = f32[] parameter(0)\n"
            f" ROOT r = f32[] all-reduce(p), replica_groups={text}, to_apply=add }}"
        )
        return module.entry.root.attributes.replica_groups

    assert groups("[2,2]<=[2,2]T(1,0)") == ((0, 2), (1, 3))
    assert groups("mesh['x'=2,'y'=4] {'x'}") == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert groups("mesh['x'=2,'y'=4] {'y':(2)2}") == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert groups("mesh['x'=2,'y'=4] {'y':(1)2}") == ((0, 2), (1, 3), (4, 6), (5, 7))
    assert groups("mesh['x'=2,'y'=2], device_ids=(3,2,1,0) {'y'}") == ((3, 2), (1, 0))


ANNOTATIONS = {
    "result_accuracy={mode=highest}": None,
    "result_accuracy={mode=default}": "",
    "result_accuracy={tolerance={rtol=0.333333333333,atol=1e-5,ulps=2}}": (
        "result_accuracy={tolerance={atol=1e-05,rtol=0.333333,ulps=2}}"
    ),
    "result_accuracy={tolerance={}}": "result_accuracy={tolerance={atol=0,rtol=0,ulps=0}}",
    "statistics={visualizing_index=-1,cov=0.5,b=1e-7}": (
        "statistics={visualizing_index=-1,cov=0.5,b=1e-07}"
    ),
    "statistics={}": "",
    'origin={{"x" {}}}': 'origin={{"x"}}',
    'origin={({"x"},({"z" {0,1}},{}))}': 'origin={({"x"}, ({"z" {0,1}}, {}))}',
    "origin={[synthetic_call]}": None,
    "origin={}": "origin={()}",
    'frontend_attributes={b={x="1"},a="2"}': 'frontend_attributes={a="2",b={x="1"}}',
    "frontend_attributes={}": "",
    "backend_config={}": None,
    'backend_config={"a":1, "b" : [1,2]}': None,
    'backend_config="{\\"a\\":1}"': 'backend_config={"a":1}',
    'backend_config=""': "",
    "metadata={op_name='x' stack_frame_id=7 profile_type={1}}": 'metadata={op_name="x"}',
    "control-predecessors={%p, %p}": "control-predecessors={%p}",
    'origin={{"x"}}, metadata={op_name="x"}, backend_config="c", control-predecessors={p}, '
    "statistics={visualizing_index=0,cov=1}, result_accuracy={mode=highest}, sharding={manual}, "
    'frontend_attributes={a="b"}': (
        'sharding={manual}, frontend_attributes={a="b"}, control-predecessors={%p}, '
        "statistics={visualizing_index=0,cov=1}, result_accuracy={mode=highest}, "
        'origin={{"x"}}, metadata={op_name="x"}, backend_config="c"'
    ),
}


@pytest.mark.parametrize("text", ANNOTATIONS)
def test_annotation(text):
    printed = ANNOTATIONS[text]
    expected = text if printed is None else printed
    assert root_text(f"tanh(p), {text}") == ", ".join(["tanh(%p)", *([expected] or [])]).rstrip(
        ", "
    )


ASYNC = [
    (
        's = ((f32[4]), f32[4], s32[]) custom-call-start(p), custom_call_target="foo", '
        'async_execution_thread="host", backend_config="q", metadata={op_name="x"}',
        'custom-call-start(%p), async_execution_thread="host", custom_call_target="foo", '
        'metadata={op_name="x"}, backend_config="q"',
        "custom-call",
    ),
    (
        "s = ((f32[4]), f32[4], s32[]) async-start(p), calls={ a = f32[4] parameter(0)\n"
        " ROOT n = f32[4] negate(a) }",
        "negate-start(%p)",
        "negate",
    ),
    (
        "s = ((f32[4]), f32[4], s32[]) reduce-scatter-start(p), replica_groups={}, dimensions={0}, "
        "to_apply=add",
        "reduce-scatter-start(%p), replica_groups={}, dimensions={0}, to_apply=%add",
        "reduce-scatter",
    ),
    (
        "s = ((f32[4]), f32[4], s32[]) async-start(p), calls={ a = f32[4] parameter(0)\n"
        " b = f32[4] negate(a)\n ROOT n = f32[4] negate(b) }",
        "async-start(%p), calls=%_",
        "async",
    ),
]


@pytest.mark.parametrize("line, printed, base", ASYNC, ids=[row[2] for row in ASYNC])
def test_asynchronous_operation(line, printed, base):
    text = module_to_text(
        parse_module(
            f"HloModule m\n{ADD}ENTRY e {{\n p = f32[4] parameter(0)\n {line}\n"
            f" u = ((f32[4]), f32[4], s32[]) async-update(s)\n ROOT d = f32[4] {base}-done(u)\n}}"
        )
    )
    assert f"%s = ((f32[4]{{0}}), f32[4]{{0}}, s32[]) {printed}\n" in text
    assert f" {base}-update(%s)\n" in text and f" {base}-done(%u)\n" in text
    assert module_to_text(parse_module(text)) == text


def test_names_are_unique_in_the_module():
    module = parse_module(
        """HloModule m
        f { x = f32[] parameter(0)
          y.0 = f32[] parameter(1)
          ROOT x.7 = f32[] add(x, y.0) }
        g { x = f32[] parameter(0)
          y = f32[] parameter(1)
          x.7 = f32[] add(x, y)
          x.1 = f32[] add(x, x.7)
          a.b.3 = f32[] add(x, x.1)
          ROOT y.0 = f32[] add(x, a.b.3), control-predecessors={x.7} }
        ENTRY e { y = f32[] parameter(0)
          y.3 = f32[] negate(y)
          a.b.3 = f32[] call(y, y.3), to_apply=f
          ROOT r = f32[] call(y, a.b.3), to_apply=g }"""
    )
    names = {c.name: [n.name for n in c] for c in module.computations}
    assert names["f"] == ["x", "y.0", "x.7"]
    assert names["g"] == ["x.1", "y.1", "x.2", "x.3", "a.b.3", "y.2"]
    assert names["e"] == ["y.3", "y.4", "a.b.0", "r"]
    assert "control-predecessors={%x.2}" in module_to_text(module)


def call_graph(calls, order):
    """A module whose computations call others by `conditional`, with what calls what."""
    blocks = []
    for name in order:
        lines = ["x = f32[] parameter(0)", "i = s32[] parameter(1)", "v0 = f32[] negate(x)"]
        for n, callees in enumerate(calls.get(name, []), 1):
            lines.append(f"t{n} = (f32[], s32[]) tuple(v{n - 1}, i)")
            if len(callees) == 1:
                lines.append(f"v{n} = f32[] call(v{n - 1}, i), to_apply={callees[0]}")
            else:
                operands = ", ".join(["i"] + [f"t{n}"] * len(callees))
                lines.append(
                    f"v{n} = f32[] conditional({operands}), "
                    f"branch_computations={{{', '.join(callees)}}}"
                )
        blocks.append(f"{'ENTRY ' * (name == 'e')}{name} {{\n" + "\n".join(lines) + "\n}")
    return "HloModule m\n" + "\n".join(blocks)


@pytest.mark.parametrize(
    "calls, order, printed",
    [
        ({"e": [["T", "F"]]}, "FTe", "TFe"),
        ({"e": [["T", "F", "T"]]}, "TFe", "FTe"),
        ({"e": [["A"], ["B"], ["A"]]}, "ABe", "ABe"),
        ({"e": [["C"], ["B"], ["A"]]}, "ABCe", "CBAe"),
        ({"e": [["D"], ["C"]], "C": [["A"], ["B"]], "D": [["B"], ["A"]]}, "ABCDe", "BADCe"),
        ({"e": [["D"], ["C"]], "C": [["A"]], "D": [["B"]]}, "ABCDe", "BDACe"),
        ({"e": [["A"], ["B"]], "C": [["A"]], "D": [["C"]]}, "ABCDe", "ACDBe"),
        ({"e": [["A"]], "B": [["A"]]}, "AeB", "AeB"),
    ],
)
def test_order_of_computations(calls, order, printed):
    module = parse_module(call_graph(calls, order))
    assert "".join(c.name for c in module.computations) == printed
    assert [
        line.split()[-2] for line in module_to_text(module, "short").split("\n") if "{" in line[-1:]
    ][-len(printed) :] == list(printed)


def test_entry_layout_is_kept():
    text = (
        "HloModule m, entry_computation_layout={(f32[2,2]{0,1})->f32[2,2]{0,1}}\n\n"
        "ENTRY %e (p: f32[2,2]) -> f32[2,2] {\n  ROOT %p = f32[2,2]{1,0} parameter(0)\n}\n\n"
    )
    assert module_to_text(parse_module(text)) == text


def test_header_tables_and_threads_are_kept():
    text = """HloModule m, buffer_donor={ (0, {}) }, \
entry_computation_layout={(f32[4]{0})->f32[4]{0}}, frontend_attributes={a="1"}, \
origin_recovery_table={
  {"a" {1}} : {"b"},
  "
    ENTRY %r (p: f32[4]) -> f32[4] {
      ROOT %p = f32[4]{0} parameter(0)
    }
  "
}


FileNames
1 "a.py"
2 "b \\"q\\".py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


%c (x: f32[4]) -> f32[4] {
  ROOT %x = f32[4]{0} parameter(0)
}, execution_thread="host"

ENTRY %e (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0), metadata={op_name="n" stack_frame_id=1}
  ROOT %r = f32[4]{0} call(%p), to_apply=%c
}

"""
    assert module_to_text(parse_module(text)) == text
    assert module_to_text(parse_module(text).clone()) == text
