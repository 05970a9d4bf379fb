"""What a model author imports: the sparse embedding, a linear layer of any width, functions of sequences, and metrics."""

from umiak.nn.linear import Linear
from umiak.nn.sequence import context, largest
from umiak.nn.sparse import SparseEmbedding

__all__ = ["Linear", "SparseEmbedding", "context", "largest"]
