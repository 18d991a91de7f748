"""Malformed HLO text: precise errors, and never anything but ParseError."""

import random

import pytest

from xla_backend.hlo.errors import HloError, ParseError
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.verifier import verify


def in_entry(*lines):
    body = "\n".join(lines)
    return f"HloModule m\nENTRY e {{\np = f32[4] parameter(0)\n{body}\n}}\n"


ERRORS = [
    (in_entry("ROOT r = f32[4] negate(zz)"), "4:24: instruction 'zz' does not exist"),
    (in_entry("p = f32[4] negate(p)"), "4:1: instruction 'p' already exists"),
    (in_entry("q = f32[4] parameter(0)"), r"parameter\(0\) already exists"),
    (in_entry("q = f32[4] parameter(2)"), r"lacks parameter\(1\)"),
    (in_entry("q = f32[4] parameter(-1)"), "out of range"),
    (in_entry("q = f32[4] parameter(99999999999999999999999)"), "too large"),
    (in_entry("q = f32[4] parameter(88888888)"), "out of range"),
    (in_entry("ROOT r = f32[4] transpose(p)"), "4:17: transpose needs the attribute dimensions"),
    (in_entry("ROOT r = f32[4] reduce(p, p), dimensions={0}"), "needs the attribute to_apply"),
    (in_entry("ROOT r = f32[4] add(p, p), foo={1}"), "4:28: add has no attribute 'foo'"),
    (in_entry("ROOT r = f32[4] add(p, p),"), "expected an attribute name"),
    (in_entry("ROOT r = f32[4] negate(p), metadata={}, metadata={}"), "given twice"),
    (in_entry("ROOT r = f32[4] call(p), to_apply=nowhere"), "'nowhere' does not exist"),
    (in_entry("ROOT r = f32[4] call(p), to_apply=e"), "'e' calls itself"),
    (in_entry("ROOT r = f32[4] frobnicate(p)"), "unknown opcode 'frobnicate'"),
    (in_entry("ROOT r = f32[4] add(p)"), r"add takes 2 operand\(s\), got 1"),
    (in_entry('ROOT "my op" = f32[4] negate(p)'), "expected an instruction"),
    (in_entry("ROOT r = f32[4 negate(p)"), "expected a shape"),
    (in_entry("ROOT r = f33[4] negate(p)"), "unknown element type 'f33'"),
    (in_entry("ROOT r = reshape(p)"), "result shape does not follow"),
    (in_entry("ROOT r = add(p, f32[] p)"), r"has shape f32\[4\], not f32\[\]"),
    (in_entry("ROOT r = f32[4] negate(p)", "ROOT s = f32[4] negate(p)"), "one instruction .* ROOT"),
    (in_entry("ROOT r = pred[4] compare(p, p), direction=XX"), "'XX' is not one of EQ, NE"),
    (in_entry("ROOT r = f32[4] fft(p), fft_type=FOO, fft_length={4}"), "'FOO' is not one of FFT"),
    (
        in_entry("ROOT r = f32[4] convolution(p, p), dim_labels=b0_i->b0"),
        "same number of labels three times",
    ),
    (
        in_entry(
            "ROOT r = f32[4] convolution(p, p), window={size=3 stride=1x1}, dim_labels=b0f_0io->b0f"
        ),
        "stride has 2 entries, size has 1",
    ),
    (
        in_entry("ROOT r = f32[4] convolution(p, p), dim_labels=bbf_0io->b0f"),
        "must contain each of b f 0 once",
    ),
    (
        in_entry("ROOT r = f32[4] all-gather(p), replica_groups=[2,3]<=[4], dimensions={0}"),
        "need more than 4 devices",
    ),
    (in_entry("ROOT r = f32[4] negate(p), control-predecessors={nope}"), "'nope' does not exist"),
    (in_entry('ROOT r = f32[4] negate(p), backend_config={"a":'), "never closed"),
    (in_entry('ROOT r = f32[4] negate(p), backend_config="abc'), "expected a quoted string"),
    (in_entry("ROOT r = ((f32[4]), f32[4], u32[]) foo-start(p)"), "unknown opcode 'foo-start'"),
    (in_entry("ROOT r = f32[4] negate-start(p)"), "of the form"),
    (in_entry("ROOT r = f32[4] negate-done(p)"), "no asynchronous operation"),
    (
        in_entry("s = ((f32[4]), f32[4], u32[]) negate-start(p)\nROOT r = f32[4] tanh-done(s)"),
        "does not start an operation tanh",
    ),
    ("HloModule m, bogus=1\nENTRY e { ROOT p = f32[] parameter(0) }", "1:14: a module has no attr"),
    ("HloModule m", "expected a computation"),
    ("", "expected"),
    ("HloModule m\nENTRY e { }", "has no instructions"),
    ("HloModule m\nENTRY e { ROOT p = f32[] parameter(0)", "never closed"),
    (
        "HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }\nENTRY f { ROOT p = f32[] "
        "parameter(0) }",
        "3:1: only one computation may be marked ENTRY",
    ),
    (
        "HloModule m\nf { ROOT p = f32[] parameter(0) }\nf { ROOT p = f32[] parameter(0) }",
        "computation 'f' already exists",
    ),
    (
        "HloModule m\nENTRY %e (p: f32[]) -> f32[2] {\n ROOT p = f32[] parameter(0)\n}",
        r"returns f32\[2\], its root is f32\[\]",
    ),
    ("HloModule m /* no end", "expected"),
]


@pytest.mark.parametrize("text, message", ERRORS)
def test_error(text, message):
    with pytest.raises(ParseError, match=message):
        parse_module(text)


def test_error_shows_line_and_caret():
    with pytest.raises(ParseError) as caught:
        parse_module(in_entry("ROOT r = f32[4] add(p, q)"))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("4:24: ")
    assert lines[1] == "ROOT r = f32[4] add(p, q)"
    assert lines[2] == " " * 23 + "^"


def test_caret_in_a_long_line():
    line = "ROOT r = (" + ", ".join(["f32[4]"] * 50) + ") tuple(" + ", ".join(["p"] * 50) + ", q)"
    with pytest.raises(ParseError) as caught:
        parse_module(in_entry(line))
    _, shown, caret = str(caught.value).splitlines()
    assert len(shown) <= 120
    assert shown[caret.index("^")] == "q"


@pytest.mark.parametrize(
    "nested",
    [
        "abs(" * 5000 + "p" + ")" * 5000,
        "add(p, {}".format("(" * 5000),
        "f32[] call(p), to_apply="
        + "{ a = f32[] parameter(0) ROOT r = f32[] call(a), to_apply=" * 500,
        "(" * 5000,
    ],
)
def test_deep_nesting_is_an_error_not_a_crash(nested):
    with pytest.raises(ParseError):
        parse_module(in_entry(f"ROOT r = {nested}"))


def test_no_blow_up_on_a_long_operand_list_with_an_error():
    operands = ",   ".join(["p"] * 3000)
    with pytest.raises(ParseError):
        parse_module(in_entry(f"ROOT r = (f32[4]) tuple({operands},   ?)"))


WHOLE = [
    """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (0, {}) }

FileNames
1 "a.py"

add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }, execution_thread="host"
ENTRY e { p = f32[<=4,6]{0,1:T(8,128)S(1)} parameter(0), sharding={devices=[2,2]<=[4]}
  z = (f32[], s32[2]) constant((-0, {1, 2})), metadata={op_name="x" source_line=3}
  s = ((f32[4]), f32[4], u32[]) negate-start(q), async_execution_thread="host"
  ROOT r = f32[4] reduce(p, /*index=1*/ z), dimensions={1}, to_apply=add }
""",
    "ENTRY e { x = bf16[2]{0} constant({1.5, nan})\n"
    "  ROOT g = bf16[2] all-reduce(negate(x)), to_apply={ a = bf16[] parameter(0)\n"
    "  b = bf16[] parameter(1)\n  ROOT c = bf16[] add(a, b) },"
    " replica_groups=mesh['x'=2,'y'=4] {'y'}, statistics={visualizing_index=0,cov=0.5} }",
]
SEEDS = [
    *WHOLE,
    in_entry('ROOT r = f32[4] add(p, /*index=1*/ p), metadata={op_name="a" source_line=3}'),
    in_entry("c = f32[2,2] constant({{1,2},{3,nan}})", "ROOT r = f32[] constant(-inf)"),
    in_entry(
        "b = f32[2,4] broadcast(p), dimensions={1}",
        "ROOT s = f32[1,2] slice(b), slice={[0:1], [0:4:2]}",
    ),
    "HloModule m, is_scheduled=true\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
    " ROOT r = f32[] add(a, b) }\nENTRY %e (p: f32[4]) -> f32[] {\n %p = f32[4]{0} parameter(0)\n"
    " z = f32[] constant(0)\n ROOT r = f32[] reduce(%p, z), dimensions={0}, to_apply=add\n}\n",
    in_entry(
        'ROOT c = (f32[4], s32[]) custom-call(p), custom_call_target="f\\"", '
        "output_to_operand_aliasing={{0}: (0, {})}, api_version=API_VERSION_TYPED_FFI, "
        "backend_config={a = 1 : i64}"
    ),
    in_entry(
        "ROOT c = f32[4] convolution(p, p), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, "
        "sharding={devices=[2]<=[2]}"
    ),
]
PIECES = [*'{}()[],=%:<>-_x"\\/*.019a \n', "ROOT ", "ENTRY ", "parameter(0)", "f32[2]", "{...}"]
PIECES += ["to_apply={", "9" * 30, "nan", "(((", "//", "/*", "calls=e", "-1"]


def mutate(rng, text):
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(text) + 1)
        choice = rng.random()
        if choice < 0.35:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif choice < 0.6:
            text = text[:at] + text[at + rng.choice([1, 1, 3, 10]) :]
        elif choice < 0.8:
            text = text[:at] + rng.choice(PIECES) + text[at + 1 :]
        elif choice < 0.9:
            other = rng.randrange(len(text) + 1)
            text = text[:at] + text[other : other + 30] + text[at:]
        else:
            text = text[:at]
        if not text:
            return text
    return text


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_mutated_text_never_crashes(seed):
    """Whatever parses also prints, reads back as printed, and passes through the verifier."""
    rng = random.Random(seed)
    for _ in range(400):
        text = mutate(rng, SEEDS[seed])
        try:
            module = parse_module(text)
            printed = module_to_text(module)
            assert module_to_text(parse_module(printed)) == printed
            verify(module)
        except HloError:
            pass


@pytest.mark.parametrize(
    "text",
    [
        "ENTRY e { ROOT c = f32[1000000000,1000000000] constant({...}) }",
        "ENTRY e { ROOT c = f64[9223372036854775807] constant({...}) }",
        "ENTRY e { ROOT p = " + "(" * 5000 + " parameter(0) }",
        "ENTRY e { p = f32[] parameter(0)\n ROOT r = " + "negate(" * 5000 + "p }",
        "ENTRY e { ROOT r = f32[] call(), to_apply=" + "{ ROOT r = f32[] call(), to_apply=" * 500,
        "ENTRY e { ROOT p = f32[] parameter(0), origin={" + "(" * 5000 + " }",
        "HloModule m, origin_recovery_table={" + "{" * 5000,
        "ENTRY e { ROOT t = token[] constant(0) }",
        "ENTRY e { ROOT p = f32[] parameter(1) }",
        "\0",
        "",
    ],
    ids=range(11),
)
def test_what_kills_other_parsers_is_an_error(text):
    with pytest.raises(ParseError):
        parse_module(text)
