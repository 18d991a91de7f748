"""Functions with transformations applied to them, as values."""

from pyjax.interpreters.linear_util import StoreException as StoreException
from pyjax.interpreters.linear_util import WrappedFun as WrappedFun
from pyjax.interpreters.linear_util import cache as cache
from pyjax.interpreters.linear_util import merge_linear_aux as merge_linear_aux
from pyjax.interpreters.linear_util import transformation as transformation
from pyjax.interpreters.linear_util import transformation2 as transformation2
from pyjax.interpreters.linear_util import transformation_with_aux as transformation_with_aux
from pyjax.interpreters.linear_util import transformation_with_aux2 as transformation_with_aux2
from pyjax.interpreters.linear_util import wrap_init as wrap_init
