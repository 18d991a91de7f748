from typing import Any

from pyjax._config import config as config
from pyjax._public import *
from pyjax.version import __version__ as __version__
from pyjax.version import __version_info__ as __version_info__

def __getattr__(name: str) -> Any: ...
