"""The data providers of v1: what a provider file imports, and its generators as a source of batches."""
