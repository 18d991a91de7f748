"""The rules of the CPU are loaded when a program has something for them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.opcode import Opcode
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.cpu import rules
from xla_backend.targets.cpu.rules import RULES


def test_the_table_names_the_module_of_each_rule() -> None:
    for module in RULES.modules.values():
        import_module(module)
    own = {op: rule for op, rule in RULES.opcodes.items() if HOST_RULES.get(op) is not rule}
    registered: dict[Opcode | FusionKind, str] = {
        kind: rule.__module__ for kind, rule in (*own.items(), *RULES.fusions.items())
    }
    assert registered == RULES.modules
    files = Path(rules.__file__).parent.glob("*_rules.py")
    assert {f"{rules.__package__}.{file.stem}" for file in files} == set(registered.values())


def test_a_plain_kernel_loads_no_rules_but_those_of_loops() -> None:
    code = """
import sys
from xla_backend.hlo.parser import parse_module
from xla_backend.targets.cpu.compiler import compile_module
text = "ENTRY m { a = f32[8] parameter(0) b = f32[8] sine(a) ROOT c = f32[8] add(b, a) }"
compile_module(parse_module(text))
found = [m for m in sys.modules if m.startswith("xla_backend.targets.cpu.")]
print(*[m for m in found if m.endswith("_rules") or m.endswith(".contracts")])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["xla_backend.targets.cpu.loop_rules"]
