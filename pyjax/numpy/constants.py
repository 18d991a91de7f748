"""Constants of pyjax.numpy: Python floats, so they are weakly typed in every expression."""

import numpy as np

e: float = np.e
euler_gamma: float = np.euler_gamma
inf: float = np.inf
nan: float = np.nan
newaxis = None
pi: float = np.pi
