"""Checks around a pass: whether it told the truth about changing the module, and whether a fixed
point settles.
"""

from __future__ import annotations

from xla_backend.hlo.errors import HloError, VerificationError
from xla_backend.hlo.module import HloModule
from xla_backend.process.on_first_use import on_first_use

_unified_diff = on_first_use("difflib", "unified_diff")
_DIFF_LINES = 40


def check_report(module: HloModule, name: str, before: str, after: str, changed: bool) -> None:
    """Compare what a pass returned with the module's text before and after.

    Raises:
      VerificationError: it changed the module and returned False (with a diff), or the reverse.
    """
    if not changed and after != before:
        raise VerificationError(
            f"after pass '{name}': it changed module {module.name!r} but reported no change; "
            f"return True from run where something was rewritten\n{_diff(before, after)}"
        )
    if changed and after == before:
        raise VerificationError(
            f"after pass '{name}': it reported a change of module {module.name!r} "
            "but its text is the same; return False from run where nothing was rewritten"
        )


def no_bool(module: HloModule, name: str, returned: object) -> HloError:
    """The error for a pass that does not say whether it changed something: forgetting to return
    is a frequent mistake."""
    return HloError(
        f"after pass '{name}' on module {module.name!r}: run returned {returned!r}; "
        "return True if something changed, else False"
    )


def not_concerned(module: HloModule, name: str) -> VerificationError:
    """The error for a pass that changed a module without the opcodes that it says it looks for:
    outside checking mode it would not have run."""
    return VerificationError(
        f"after pass '{name}': it changed module {module.name!r}, which has none of the opcodes "
        "that the pass names; add what it looks for to its `opcodes` and `module_opcodes`"
    )


def _diff(before: str, after: str) -> str:
    lines = list(
        _unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=1)
    )
    if len(lines) > _DIFF_LINES:
        lines = [*lines[:_DIFF_LINES], f"... and {len(lines) - _DIFF_LINES} more lines"]
    return "\n".join(lines)


class RoundAudit:
    """Watches a fixed point: it must settle within its rounds, and never see a module again."""

    def __init__(self, pipeline: str, module: HloModule) -> None:
        self.pipeline = pipeline
        self.module = module
        self._seen: dict[int, int] = {}

    def round_done(self, number: int, text: str) -> None:
        """Note the module after a round that changed something.

        Raises:
          HloError: an earlier round left exactly this module: the passes undo each other for ever.
        """
        first = self._seen.setdefault(hash(text), number)
        if first != number:
            raise HloError(
                f"pipeline {self.pipeline!r} runs in a circle on module {self.module.name!r}: "
                f"round {number + 1} leaves what round {first + 1} left"
            )

    def not_settled(self, cap: int) -> HloError:
        """The error of a pipeline that still changes something in its last round."""
        return HloError(
            f"pipeline {self.pipeline!r} still changes module {self.module.name!r} after "
            f"{cap} rounds: two of its passes undo each other"
        )
