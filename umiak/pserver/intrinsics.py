"""Two things numba does not offer, for loops over random rows of large tables.

`prefetch` asks the processor for memory that a loop will need a few turns later: such rows miss every cache, and asking
ahead lets the misses overlap. `copy` moves short runs of floats in one go; a loop compiled for any length is slow at 16.
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


@intrinsic  # type: ignore[misc, unused-ignore]
def copy(_context: Any, target: Any, at: Any, source: Any, start: Any, count: Any) -> Any:
    """target[at : at + count] = source[start : start + count], for vectors of one type. Nothing is checked.

    Two elements, the weights of two classes, are moved without a call.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers = []
        for position in (0, 2):
            base = context.make_array(signature.args[position])(context, builder, args[position])
            pointers.append(builder.gep(base.data, [args[position + 1]]))
        size = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        two = builder.icmp_signed("==", args[4], args[4].type(2))
        with builder.if_else(two) as (then, otherwise):
            with then:
                pair = ir.IntType(16 * size).as_pointer()
                target, source = (builder.bitcast(pointer, pair) for pointer in pointers)
                builder.store(builder.load(source, align=size), target, align=size)
            with otherwise:
                cgutils.raw_memcpy(builder, *pointers, args[4], size)
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.int64), generate
