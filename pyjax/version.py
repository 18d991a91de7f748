"""The version of pyjax."""

__version__ = "0.1.0"
__version_info__ = (0, 1, 0)

# The version of JAX whose public API this is.
jax_version = "0.10.2"
jax_version_info = (0, 10, 2)
