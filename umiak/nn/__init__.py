"""What a model author imports: the sparse embedding, functions of sequences, and metrics."""

from umiak.nn.sequence import context, largest
from umiak.nn.sparse import SparseEmbedding

__all__ = ["SparseEmbedding", "context", "largest"]
