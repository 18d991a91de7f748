"""Public exception classes; each docstring explains the error with a bad and a good example."""

from pyjax.core.errors import (
    AxisError,
    ConcretizationTypeError,
    JAXIndexError,
    JaxprTypeError,
    JaxRuntimeError,
    JAXTypeError,
    KeyReuseError,
    NonConcreteBooleanIndexError,
    PyjaxError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TracerLeakError,
    TypePromotionError,
    UnexpectedTracerError,
    UnhashableStaticError,
)

__all__ = [
    "AxisError",
    "ConcretizationTypeError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KeyReuseError",
    "NonConcreteBooleanIndexError",
    "PyjaxError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracerLeakError",
    "TypePromotionError",
    "UnexpectedTracerError",
    "UnhashableStaticError",
]
