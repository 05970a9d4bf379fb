"""The input types of PyDataProvider2, under their names of v1: what one slot of a sample holds."""

from __future__ import annotations

__all__ = [
    "DataType",
    "InputType",
    "SequenceType",
    "dense_slot",
    "dense_vector",
    "dense_vector_sequence",
    "dense_vector_sub_sequence",
    "index_slot",
    "integer_sequence",
    "integer_value",
    "integer_value_sequence",
    "integer_value_sub_sequence",
    "sparse_binary_vector",
    "sparse_binary_vector_sequence",
    "sparse_binary_vector_sub_sequence",
    "sparse_float_vector",
    "sparse_float_vector_sequence",
    "sparse_float_vector_sub_sequence",
    "sparse_non_value_slot",
    "sparse_value_slot",
    "sparse_vector",
    "sparse_vector_sequence",
    "sparse_vector_sub_sequence",
]


class SequenceType:
    NO_SEQUENCE = 0
    SEQUENCE = 1
    SUB_SEQUENCE = 2


class DataType:
    Dense = 0
    SparseNonValue = 1
    SparseValue = 2
    Index = 3


_NAMES = ("dense_vector", "sparse_binary_vector", "sparse_vector", "integer_value")
_LEVELS = ("", "_sequence", "_sub_sequence")


class InputType:
    """What one slot holds: `dim` is the length of a vector or the number of ids."""

    __slots__ = ("dim", "seq_type", "type")

    def __init__(self, dim: int, seq_type: int, tp: int) -> None:
        self.dim, self.seq_type, self.type = dim, seq_type, tp

    def __str__(self) -> str:
        return f"{_NAMES[self.type]}{_LEVELS[self.seq_type]}({self.dim})"


def dense_slot(dim: int, seq_type: int = SequenceType.NO_SEQUENCE) -> InputType:
    return InputType(dim, seq_type, DataType.Dense)


def sparse_non_value_slot(dim: int, seq_type: int = SequenceType.NO_SEQUENCE) -> InputType:
    return InputType(dim, seq_type, DataType.SparseNonValue)


def sparse_value_slot(dim: int, seq_type: int = SequenceType.NO_SEQUENCE) -> InputType:
    return InputType(dim, seq_type, DataType.SparseValue)


def index_slot(value_range: int, seq_type: int = SequenceType.NO_SEQUENCE) -> InputType:
    return InputType(value_range, seq_type, DataType.Index)


dense_vector = dense_slot
sparse_binary_vector = sparse_non_value_slot
sparse_vector = sparse_float_vector = sparse_value_slot
integer_value = index_slot


def dense_vector_sequence(dim: int) -> InputType:
    return dense_slot(dim, SequenceType.SEQUENCE)


def dense_vector_sub_sequence(dim: int) -> InputType:
    return dense_slot(dim, SequenceType.SUB_SEQUENCE)


def sparse_binary_vector_sequence(dim: int) -> InputType:
    return sparse_non_value_slot(dim, SequenceType.SEQUENCE)


def sparse_binary_vector_sub_sequence(dim: int) -> InputType:
    return sparse_non_value_slot(dim, SequenceType.SUB_SEQUENCE)


def sparse_vector_sequence(dim: int) -> InputType:
    return sparse_value_slot(dim, SequenceType.SEQUENCE)


def sparse_vector_sub_sequence(dim: int) -> InputType:
    return sparse_value_slot(dim, SequenceType.SUB_SEQUENCE)


def integer_value_sequence(value_range: int) -> InputType:
    return index_slot(value_range, SequenceType.SEQUENCE)


def integer_value_sub_sequence(value_range: int) -> InputType:
    return index_slot(value_range, SequenceType.SUB_SEQUENCE)


sparse_float_vector_sequence = sparse_vector_sequence
sparse_float_vector_sub_sequence = sparse_vector_sub_sequence
integer_sequence = integer_value_sequence
