"""Importing this module makes `import jax` mean pyjax, for the rest of the process:

    import pyjax.as_jax  # above the first import of jax
    import jax, optax

Without a change to the program: `python -m pyjax.as_jax program.py`, `-m module`, and, for tests,
`pytest -p pyjax.as_jax`.
"""

import sys as _sys

from pyjax.tools import command_line as _command_line
from pyjax.tools.as_jax import install as install

if __name__ == "__main__":
    _sys.exit(_command_line.main(["run", *_sys.argv[1:]]))
install()
