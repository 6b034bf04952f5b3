"""NonMaxSuppression: the choice among overlapping boxes."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import float32, int64
from burnx.errors import ModelError
from burnx.ops.kinds import Flag, Float32, Int64
from burnx.ops.operator import operator
from burnx.ops.selection import dim_tensor
from burnx.tensor import Tensor


@operator("NonMaxSuppression", since=(10, 11), ranks={"boxes": 3, "scores": 3})
def non_max_suppression(
    boxes: Float32,
    scores: Float32,
    max_output_boxes_per_class: Int64 | None = None,
    iou_threshold: Float32 | None = None,
    score_threshold: Float32 | None = None,
    *,
    center_point_box: Flag = 0,
) -> Int64:
    """The boxes that are left when, by falling score, each removes those that overlap it too much.

    Shapes: (batch, n, 4), (batch, class, n) -> (chosen, 3): batch, class and box of each.
    Source: ONNX NonMaxSuppression-11
    """
    if center_point_box not in (0, 1):
        raise ModelError(f"center_point_box is 0 or 1, not {center_point_box}")
    if max_output_boxes_per_class is None:
        most = waist.constant(0, int64)
    else:
        most = waist.reshape(max_output_boxes_per_class, ())
    trips = waist.map("min", most, dim_tensor(boxes.shape[1]))
    limit = (
        waist.constant(0, float32) if iou_threshold is None else waist.reshape(iou_threshold, ())
    )
    corners = _corners(boxes, bool(center_point_box))
    picks, found = _choose(corners, scores, trips, limit, score_threshold)
    return _listed(picks, found)


def _corners(boxes: Tensor, centered: bool) -> list[Tensor]:
    """low y, low x, high y, high x: each (batch, n)."""
    batch, count, _ = boxes.shape
    a, b, c, d = (waist.reshape(waist.slice_axis(boxes, 2, k, 1), (batch, count)) for k in range(4))
    if centered:
        half = waist.constant(0.5, float32)
        width, height = waist.map("mul", c, half), waist.map("mul", d, half)
        low, high = ("sub", "add")
        return [
            waist.map(low, b, height),
            waist.map(low, a, width),
            waist.map(high, b, height),
            waist.map(high, a, width),
        ]
    return [
        waist.map("min", a, c),
        waist.map("min", b, d),
        waist.map("max", a, c),
        waist.map("max", b, d),
    ]


def _choose(
    corners: Sequence[Tensor],
    scores: Tensor,
    trips: Tensor,
    limit: Tensor,
    score_threshold: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The best remaining box of each batch and class, turn by turn, and whether there was one.

    Shapes: two of (turn, batch, class).
    """
    lowest = waist.constant(float("-inf"), float32)
    if score_threshold is None:
        alive = waist.map("eq", scores, scores)
    else:
        alive = waist.map("lt", waist.reshape(score_threshold, ()), scores)

    def turn(iteration: Tensor, going: Tensor, alive: Tensor) -> list[Tensor]:
        masked = waist.map("select", alive, scores, lowest)
        best = waist.argreduce("max", masked, 2)
        found = waist.reduce("or", alive, [2])
        overlap = _overlap(corners, best)
        kept = waist.map("and", alive, waist.map("le", overlap, limit))
        place = waist.reshape(waist.iota(scores.shape[2]), (1, 1, scores.shape[2]))
        chosen = waist.map("eq", place, waist.reshape(best, (*best.shape, 1)))
        return [going, waist.map("and", kept, waist.map("not", chosen)), best, found]

    _, picks, founds = waist.repeat(trips, None, [alive], turn)
    return picks, founds


def _overlap(corners: Sequence[Tensor], best: Tensor) -> Tensor:
    """Intersection over union of the chosen box with every box; 0 where either is empty.

    Shapes: 4 of (batch, n), (batch, class) -> (batch, class, n).
    """
    batch, count = corners[0].shape
    every = [waist.reshape(each, (batch, 1, count)) for each in corners]
    own = [waist.reshape(waist.take_along(each, best, 1), (*best.shape, 1)) for each in corners]
    zero = waist.constant(0, float32)
    height = waist.map(
        "sub", waist.map("min", own[2], every[2]), waist.map("max", own[0], every[0])
    )
    width = waist.map("sub", waist.map("min", own[3], every[3]), waist.map("max", own[1], every[1]))
    both = waist.map("mul", waist.map("max", height, zero), waist.map("max", width, zero))
    union = waist.map("sub", waist.map("add", _area(own), _area(every)), both)
    overlaps = waist.map("lt", zero, both)
    ratio = waist.map("div", both, waist.map("select", overlaps, union, waist.constant(1, float32)))
    return waist.map("select", overlaps, ratio, zero)


def _area(corners: Sequence[Tensor]) -> Tensor:
    height = waist.map("sub", corners[2], corners[0])
    return waist.map("mul", height, waist.map("sub", corners[3], corners[1]))


def _listed(picks: Tensor, found: Tensor) -> Tensor:
    """Shapes: (turn, batch, class) twice -> (chosen, 3), by batch, class and turn."""
    picks, found = (waist.transpose(each, (1, 2, 0)) for each in (picks, found))
    places = waist.transpose(waist.nonzero(found), (1, 0))
    box = waist.reshape(waist.gather_nd(picks, places), (places.shape[0], 1))
    return waist.concat([waist.slice_axis(places, 1, 0, 2), box], 1)
