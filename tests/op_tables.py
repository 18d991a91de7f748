"""All operator tables, joined."""

from tests import op_table_elementwise

OPS = op_table_elementwise.OPS
