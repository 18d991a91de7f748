"""What is one kernel, and what needs no memory: claims about compiled programs, each with its
result compared with the evaluator's."""

import pytest
from native_checks import check_native, module_of

ADD = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
max {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] maximum(x, y)
}
"""


def compiled(body: str, scale: float = 1.0):
    return check_native(module_of(body, ADD), scale=scale)


SUMS = {  # dimensions, reduced dimensions, result
    "short": ("1000", "0", ""),
    "long": ("1048576", "0", ""),
    "rows": ("1024,1024", "1", "1024"),
    "columns": ("1024,1024", "0", "1024"),
    "all of a matrix": ("1024,1024", "0,1", ""),
}


@pytest.mark.parametrize("name", SUMS)
def test_sum_of_products_is_one_kernel_without_memory(name):
    dims, reduced, result = SUMS[name]
    executable = compiled(
        f"""
        x = f32[{dims}] parameter(0)
        y = f32[{dims}] parameter(1)
        z = f32[{dims}] parameter(2)
        p = f32[{dims}] multiply(y, z)
        s = f32[{dims}] add(x, p)
        zero = f32[] constant(0)
        ROOT r = f32[{result}] reduce(s, zero), dimensions={{{reduced}}}, to_apply=add""",
        scale=1e3,
    )
    assert len(executable.loop_ir) == 1
    assert executable.temp_size == 0


def test_two_uses_of_an_exponential_are_one_kernel():
    executable = compiled("""
        x = f32[1024] parameter(0)
        e = f32[1024] exponential(x)
        one = f32[] constant(1)
        ones = f32[1024] broadcast(one), dimensions={}
        twos = f32[1024] add(ones, ones)
        a = f32[1024] add(e, ones)
        b = f32[1024] multiply(e, twos)
        ROOT r = (f32[1024], f32[1024]) tuple(a, b)""")
    (text,) = executable.loop_ir.values()
    assert text.count("exp(") == 1
    assert executable.temp_size == 0


def test_ten_elementwise_operations_are_one_kernel():
    ops = [
        "tanh",
        "negate",
        "exponential",
        "abs",
        "sqrt",
        "cosine",
        "sine",
        "negate",
        "abs",
        "tanh",
    ]
    lines = ["v0 = f32[3000] parameter(0)"]
    lines += [f"v{i + 1} = f32[3000] {op}(v{i})" for i, op in enumerate(ops)]
    lines[-1] = f"ROOT {lines[-1]}"
    executable = compiled("\n".join(lines))
    assert len(executable.loop_ir) == 1 and executable.temp_size == 0


def test_diamond_is_one_kernel():
    executable = compiled("""
        x = f32[3000] parameter(0)
        t = f32[3000] tanh(x)
        a = f32[3000] sine(t)
        b = f32[3000] exponential(t)
        c = f32[3000] multiply(a, b)
        ROOT r = f32[3000] add(c, t)""")
    assert len(executable.loop_ir) == 1 and executable.temp_size == 0
