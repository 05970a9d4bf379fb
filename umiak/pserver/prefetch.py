"""One instruction numba does not offer: ask the processor for memory that a loop will need a few turns later.

Random rows of a large table miss every cache; asking ahead lets those misses overlap. It never changes a result.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

AHEAD = 16
LINE = 64


@intrinsic  # type: ignore[misc, unused-ignore]
def prefetch(_context: Any, array: Any, index: Any, offset: Any) -> Any:
    """Ask for the cache line at `offset` bytes into array[index]. An index beyond the array is harmless."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = context.make_array(signature.args[0])(context, builder, args[0])
        stride = cgutils.unpack_tuple(builder, base.strides)[0]
        word, flag = ir.IntType(64), ir.IntType(32)
        address = builder.add(builder.ptrtoint(base.data, word), builder.add(builder.mul(args[1], stride), args[2]))
        pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, flag, flag, flag])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(call, [pointer, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.none(array, types.int64, types.int64), generate
