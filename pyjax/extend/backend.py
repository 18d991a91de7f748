"""Clients of the platforms, for programs that start them anew."""

from pyjax.runtime.devices import backends as backends
from pyjax.runtime.devices import clear_backends as clear_backends
from pyjax.runtime.devices import get_backend as get_backend
