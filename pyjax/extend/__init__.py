"""Names for libraries that build on the internals."""

from pyjax.extend import backend as backend
from pyjax.extend import core as core
