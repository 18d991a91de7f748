"""Programs and libraries written for JAX run on pyjax: `import jax` gives them pyjax.

Public modules are pyjax's own, the same objects under a second name (`modules`). Private ones that
libraries reach for are thin modules made from public names, by a table (`private_names`).
"""

from pyjax.tools.as_jax.modules import as_jax as as_jax
from pyjax.tools.as_jax.modules import install as install
from pyjax.tools.as_jax.programs import run_program as run_program
