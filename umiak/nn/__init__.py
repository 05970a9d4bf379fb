"""What a model author imports: the sparse embedding and metrics."""

from umiak.nn.sparse import SparseEmbedding

__all__ = ["SparseEmbedding"]
