"""Compare this parser and printer with what XLA's own printed for a list of HLO texts.

  python -m xla_backend.tools.check_text_corpus CASES.json

The file holds `{"cases": [{"name", "text", "printed" or "error"}, ...]}`: a case with `printed`
must parse and print exactly so (constants of more than 10 elements as `{...}`), one without must be
rejected with a ParseError. Prints each difference and the score; exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from xla_backend.hlo.errors import ParseError
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text


def difference(case: dict[str, Any]) -> str | None:
    """What is wrong with a case, None if nothing is."""
    wanted = case.get("printed")
    try:
        printed = module_to_text(parse_module(case["text"]), large_constants=False)
    except ParseError as error:
        return None if wanted is None else f"rejected: {error}"
    if wanted is None:
        return f"accepted; XLA says: {case.get('error')}"
    if printed == wanted:
        return None
    lines = difflib.unified_diff(
        wanted.split("\n"), printed.split("\n"), "wanted", "printed", n=0, lineterm=""
    )
    return "\n".join(lines)


def check(cases: Iterable[dict[str, Any]]) -> tuple[int, list[str]]:
    """The number of cases and the differences found."""
    total = 0
    found = []
    for case in cases:
        total += 1
        wrong = difference(case)
        if wrong is not None:
            found.append(f"{case.get('group', '')} {case.get('name', total)}: {wrong}")
    return total, found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("path", help="JSON file with the cases")
    path = parser.parse_args(arguments).path
    with open(path, encoding="utf-8") as file:
        total, found = check(json.load(file)["cases"])
    for text in found:
        print(text)
    print(f"{total - len(found)} of {total} texts are accepted or rejected and printed as by XLA")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
