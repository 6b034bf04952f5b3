"""All kinds of kernels; importing them registers how each is written."""

from burnx.fusion import (
    control,
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
    "control",
    "convolutions",
    "elementwise",
    "joining",
    "products",
    "rows",
    "scans",
    "scattering",
    "windows",
]
