"""All kinds of kernels; importing them registers how each is written."""

from burnx.fusion import (
    convolutions,
    elementwise,
    joining,
    products,
    rows,
    scans,
    scattering,
    windows,
)

__all__ = [
    "convolutions",
    "elementwise",
    "joining",
    "products",
    "rows",
    "scans",
    "scattering",
    "windows",
]
