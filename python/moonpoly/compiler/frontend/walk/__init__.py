"""The walk over the graph: each node evaluated, converted by us or by TVM, or refused."""
