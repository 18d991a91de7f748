"""Small libraries written with the public functions, as examples: optimizers, layers."""

from pyjax.example_libraries import optimizers as optimizers
from pyjax.example_libraries import stax as stax
