"""LLVM text emission shared by the targets: writer, types, vector math, object code, linking.

writer        one function or module as text, with value numbering and code motion
types         spellings of element types, exact constants
target        vector width and abilities of a target
jit           text -> object code -> linked native functions
elemental     EMITTERS: HLO elementwise opcode + element type -> code (register representation)
math, ...     the vector mathematics behind it
"""
