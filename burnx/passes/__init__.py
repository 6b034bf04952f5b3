"""Passes: Graph to Graph, before source is printed.

Enters: a Graph, which is changed in place.  Leaves: how much each pass changed.  May import: lowering, runtime, ops
and below.  Start reading at ``PASSES``; ``editing.py`` is how a graph is changed, ``rewriting.py`` what a rule is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from burnx.errors import UsageError
from burnx.graph import Graph
from burnx.passes.activations import lift_gelu, lift_hard_swish, lift_mish, lift_silu
from burnx.passes.attention import lift_attention
from burnx.passes.cleaning import clean
from burnx.passes.dynamic_quantization import lift_dynamic_quantization
from burnx.passes.folding import fold
from burnx.passes.grids import resolve_grids
from burnx.passes.linear import lift_linear
from burnx.passes.movement import merge_moves
from burnx.passes.norms import lift_layer_norm, lift_rms_norm
from burnx.passes.pixels import lift_pixel_shuffle
from burnx.passes.quantized import lift_quantized_layers
from burnx.passes.ranges import count_in_integers
from burnx.passes.rotary import lift_rotary
from burnx.passes.rounding import lift_fake_quantize
from burnx.passes.shapes import resolve_shapes
from burnx.passes.softmax import lift_softmax
from burnx.passes.targets import settle_targets

Pass = Callable[[Graph], int]
PASSES: dict[str, Pass] = {
    "fold": fold,
    "clean": clean,
    "ranges": count_in_integers,
    "shapes": resolve_shapes,
    "grids": resolve_grids,
    "softmax": lift_softmax,
    "gelu": lift_gelu,
    "layer_norm": lift_layer_norm,
    "rms_norm": lift_rms_norm,
    "silu": lift_silu,
    "hard_swish": lift_hard_swish,
    "mish": lift_mish,
    "linear": lift_linear,
    "quantized_layers": lift_quantized_layers,
    "dynamic_quantization": lift_dynamic_quantization,
    "fake_quantize": lift_fake_quantize,
    "pixel_shuffle": lift_pixel_shuffle,
    "movement": merge_moves,
    "rotary_embedding": lift_rotary,
    "attention": lift_attention,
    "targets": settle_targets,
}
# merging and cleaning again after the lifts takes away what they brought together
ORDER = (*PASSES, "movement", "targets", "clean")


def check_passes(names: Collection[str]) -> None:
    """Raises: UsageError if one of the names is no pass."""
    unknown = [name for name in names if name not in PASSES]
    if unknown:
        raise UsageError(f'there is no pass "{unknown[0]}"; known are {", ".join(PASSES)}')


def run_passes(graph: Graph, skip: Collection[str] = ()) -> dict[str, int]:
    """Run every pass but those in ``skip`` on a graph; how many changes each made.

    Raises: UsageError if ``skip`` names no pass.
    """
    check_passes(skip)
    changes = {name: 0 for name in PASSES if name not in skip}
    for name in ORDER:
        if name in changes:
            changes[name] += PASSES[name](graph)
    return changes
