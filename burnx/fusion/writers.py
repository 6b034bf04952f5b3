"""All kinds of kernels; importing them registers how each is written."""

from burnx.fusion import (
    attention,
    compaction,
    control,
    convolutions,
    elementwise,
    joining,
    products,
    rows,
    scans,
    scattering,
    sorting,
    windows,
)

__all__ = [
    "attention",
    "compaction",
    "control",
    "convolutions",
    "elementwise",
    "joining",
    "products",
    "rows",
    "scans",
    "scattering",
    "sorting",
    "windows",
]
