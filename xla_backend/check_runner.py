"""Running StableHLO programs that carry their own inputs and expected values."""

from __future__ import annotations

from xla_backend import library
from xla_backend.hlo.check_calls import CheckResult, collecting
from xla_backend.stablehlo.ir import Operation, function_type
from xla_backend.stablehlo.parser import parse_module, split_input
from xla_backend.stablehlo.to_hlo import module_to_hlo


def run_checks(text: str, platform: str = "cpu") -> list[CheckResult]:
    """Run a text with `check.*` operations or custom calls; each check that was reached, in order
    of the text.

    `main` runs, or, where there is none, every public function; they take no arguments. Parts
    between lines `// -----` are modules of their own.

    Args:
      platform: "cpu", "interpreter", or a plugin's name.
    Raises:
      ParseError, ConversionError, UnimplementedError: the text cannot be run.
      ValueError: a function that would run takes arguments.

    >>> text = '''func.func @main() {
    ...   %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
    ...   %1 = stablehlo.add %0, %0 : tensor<2xi32>
    ...   check.expect_eq_const %1, dense<[2, 5]> : tensor<2xi32>
    ...   return }'''
    >>> [str(result) for result in run_checks(text)]
    ['check.expect_eq (line 4): FAIL: element [1] is 4, expected 5']
    """
    results: list[CheckResult] = []
    offset = 0
    for part in split_input(text):
        before = text.index(part, offset)
        offset = before + len(part)
        first_line = text.count("\n", 0, before)
        found = _run_part(part, platform)
        results += [r._replace(line=r.line + first_line if r.line else 0) for r in found]
    return results


def _run_part(text: str, platform: str) -> list[CheckResult]:
    module = parse_module(text)
    functions = module.functions
    names = ["main"] if "main" in functions else [n for n, f in functions.items() if _is_public(f)]
    results: list[CheckResult] = []
    for name in names:
        if function_type(functions[name]).inputs:
            raise ValueError(f"@{name} takes arguments; a program with checks has its own values")
        executable = library.compile(module_to_hlo(module, name), platform)
        with collecting() as found:
            executable.execute([])
        results += sorted(found, key=lambda r: r.line)
    return results


def _is_public(function: Operation) -> bool:
    return function.attributes.get("sym_visibility") != "private"
