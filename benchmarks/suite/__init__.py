"""A hundred programs of many families, each written once and run by pyjax and by JAX.

`python -m benchmarks.suite --jax PYTHON` measures them and writes the report; `make bench` does so.
"""
