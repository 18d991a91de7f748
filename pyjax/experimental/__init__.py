"""Names that live under `experimental`."""

from pyjax.experimental import checkify as checkify
from pyjax.experimental import pjit as pjit
from pyjax.experimental.hijax import cur_qdd as cur_qdd
from pyjax.lax.callbacks import io_callback as io_callback
