"""All options by their short names: `options.enable_x64.value`. Declarations live in one file an
area.
"""

from __future__ import annotations

from .options_compilation import *
from .options_debugging import *
from .options_devices import *
from .options_kernels import *
from .options_logging import *
from .options_migration import *
from .options_numerics import *
