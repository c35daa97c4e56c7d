"""Windows and pixels: pooling, resizing, regions, and convolutions turned round."""

from moonpoly.compiler.frontend.converters.images import pooling, resize, spatial, transposed

__all__ = ["pooling", "resize", "spatial", "transposed"]
