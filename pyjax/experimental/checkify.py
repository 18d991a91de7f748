"""Errors of compiled programs as values: checks of the user's, NaNs, zero divisors, indices."""

from pyjax.api.checkify import all_checks as all_checks
from pyjax.api.checkify import automatic_checks as automatic_checks
from pyjax.api.checkify import checkify as checkify
from pyjax.api.checkify import div_checks as div_checks
from pyjax.api.checkify import float_checks as float_checks
from pyjax.api.checkify import index_checks as index_checks
from pyjax.api.checkify import nan_checks as nan_checks
from pyjax.api.checkify import user_checks as user_checks
from pyjax.lax.faults.check import check as check
from pyjax.lax.faults.check import check_error as check_error
from pyjax.lax.faults.check import debug_check as debug_check
from pyjax.lax.faults.error_value import Error as Error
from pyjax.lax.faults.error_value import ErrorCategory as ErrorCategory
from pyjax.lax.faults.error_value import JaxRuntimeError as JaxRuntimeError
from pyjax.lax.faults.error_value import init_error as init_error
