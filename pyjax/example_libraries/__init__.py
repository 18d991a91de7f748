"""Small libraries written with the public functions, as examples: optimizers."""

from pyjax.example_libraries import optimizers as optimizers
