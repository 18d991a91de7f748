"""Records the types of results under the reference. Needs JAX; the tests do not.

    PYTHONPATH=. python tests/result_types/record.py [--all]

Run it from the root of the checkout with a Python that has `jax` (0.10.2), `ml_dtypes` and NumPy.
Only new calls are run, unless `--all` is given; calls that left the tables leave the file.
"""

from __future__ import annotations

import sys

import jax

from tests.result_types.combinations import calls, types_of
from tests.result_types.recorded import load, save


def main() -> None:
    old = {"32": {}, "64": {}} if "--all" in sys.argv[1:] else load()
    found: dict[str, dict[str, str]] = {"32": {}, "64": {}}
    for call in calls():
        for bits, entries in found.items():
            wide = bits == "64"
            kinds = call.kinds(wide)
            known = old[bits].get(call.key)
            if known is None or len(known.split(" ")) != len(kinds):
                known = " ".join(types_of(jax, call, one, wide) for one in kinds)
                print(bits, call.key, flush=True)
            entries[call.key] = known
        if len(found["64"]) % 50 == 0:
            jax.clear_caches()
    save(found)


if __name__ == "__main__":
    main()
