"""ATen operators become statements of the graph's text. The table is filled by importing the files that stand in it."""

from transfuse.translate import convolution, pointwise, reduction, shape

__all__ = ["convolution", "pointwise", "reduction", "shape"]
