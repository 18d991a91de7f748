"""Small recorded programs that behave differently here, and the section that says why."""

from __future__ import annotations

# The name of a program, and the title of an entry of GENERAL in known_differences.py.
PROGRAMS = {
    "abs_int4": "Narrow integers and wide indices",
    "aot_const": "Constants of programs",
    "array_hashable": "Arrays as Python objects",
    "array_weakref": "Arrays as Python objects",
    "bfgs": "Minimisers",
    "debugprint_batched_while": "Effects in mapped loops",
    "dlpack_copy_np": "DLPack and strings",
    "error_url": "Messages",
    "explicit_x64_dtypes": "Options",
    "export_names": "Messages",
    "indices_norm": "Narrow integers and wide indices",
    "jaxarray_ravelbug": "Objects that stand for arrays",
    "jaxarray_vdot": "Objects that stand for arrays",
    "jaxarray_where": "Objects that stand for arrays",
    "jaxpr_pp_namestack": "Texts of programs",
    "lbfgs": "Minimisers",
    "memory_stats": "Devices",
    "np_base_key": "Arrays as Python objects",
    "optimize_bad": "Minimisers",
    "primitive_tables": "Tables of rules",
    "stringarr": "DLPack and strings",
    "traceback_notes": "Messages",
    "vectorize_scalar": "Functions without arguments",
    "vmap_none_psum_cvjp": "Functions with rules under named axes",
}
