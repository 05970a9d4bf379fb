"""`umiak show`: a model in words and as a drawing, and what each service would hold of it."""
