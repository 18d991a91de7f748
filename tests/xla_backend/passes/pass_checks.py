"""check_pass: runs one pass over HLO text, matches CHECK lines and compares values before and
after."""

from __future__ import annotations

import io
import textwrap

import numpy as np
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import PrintOptions, module_to_text
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.passes.base import HloPass, Pipeline

STYLE = PrintOptions(layouts=False, metadata=False, signature=False)


def check_pass(
    hlo_pass: HloPass,
    text: str,
    *,
    expect_change: bool = True,
    exact: bool = True,
    rtol: float = 1e-5,
    seed: int = 0,
) -> HloModule:
    """Parse, verify, run, verify, match `// CHECK` lines in `text`, evaluate both on random inputs.

    Args:
      expect_change: what the pass must return.
      exact: values must agree bit by bit (False: within rtol, for rewrites that reassociate sums).
    Returns:
      The module after the pass.
    """
    text = textwrap.dedent(text)
    before, after = parse_module(text), parse_module(text)
    changed = Pipeline("check_pass", [hlo_pass], CompileOptions(verify=True)).run(after)
    printed = module_to_text(after, STYLE)
    assert changed == expect_change, f"{hlo_pass.name} returned {changed}:\n{printed}"
    if "CHECK" in text:
        match_checks(text, printed)
    compare_values(before, after, exact=exact, rtol=rtol, seed=seed)
    return after


def match_checks(checks: str, printed: str) -> None:
    options = Options(match_filename="checks")
    parser = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
    matcher = Matcher(options, FInput("printed", printed), parser)
    matcher.stderr = io.StringIO()
    if matcher.run() != 0:
        raise AssertionError(f"{matcher.stderr.getvalue()}\n{printed}")


def random_arguments(module: HloModule, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    arguments = []
    for parameter in module.entry.parameters:
        for shape in parameter.shape.flatten():
            dtype, dims = shape.element_type.numpy_dtype, shape.dimensions
            if shape.element_type is P.PRED:
                arguments.append(rng.integers(0, 2, dims).astype(bool))
            elif shape.element_type.is_integral:
                arguments.append(rng.integers(0, 5, dims).astype(dtype))
            elif shape.element_type.is_complex:
                z = rng.standard_normal(dims) + 1j * rng.standard_normal(dims)
                arguments.append(np.asarray(z, dtype))
            else:
                x = np.asarray(rng.standard_normal(dims), dtype)
                # The values that identities get wrong.
                special = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan], np.float32).astype(dtype)
                if x.size > 2 * special.size:
                    x.reshape(-1)[: special.size] = special
                arguments.append(x)
    return arguments


def compare_values(before, after, *, exact: bool, rtol: float, seed: int) -> None:
    arguments = random_arguments(before, seed)
    expected = evaluate(before, arguments, seed=0)
    got = evaluate(after, arguments, seed=0)
    assert len(expected) == len(got)
    for e, g in zip(expected, got):
        assert (e.dtype, e.shape) == (g.dtype, g.shape)
        if e.dtype.kind not in "biufc":  # bf16 and f8: exact in float32
            e, g = e.astype(np.float32), g.astype(np.float32)
        if exact and e.dtype.kind == "f":
            same = (e == g) & (np.signbit(e) == np.signbit(g)) | (np.isnan(e) & np.isnan(g))
            assert same.all(), (e, g)
        elif exact:
            np.testing.assert_array_equal(g, e)
        else:
            np.testing.assert_allclose(g, e, rtol=rtol, atol=rtol)
