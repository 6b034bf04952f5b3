"""BatchNormalization, as of every opset."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import compute_dtype, float64
from burnx.errors import ModelError, UnsupportedError
from burnx.ops.kinds import T1, T2, Flag, T
from burnx.ops.movement import flatten, reshape, shape
from burnx.ops.normalization import centred, per_channel
from burnx.ops.operator import operator
from burnx.tensor import Tensor


@operator(
    "BatchNormalization",
    since=(1, 6, 7, 9, 14, 15),
    outputs=1,
    ranks={"x": -1, "scale": 1, "b": 1, "input_mean": 1, "input_var": 1},
)
def batch_normalization(
    x: T,
    scale: T1,
    b: T1,
    input_mean: T2,
    input_var: T2,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: Flag = 0,
) -> tuple[T, T2, T2]:
    """(x - mean) / sqrt(variance + epsilon) * scale + b for each channel, which is axis 1.

    In training the statistics are those of x, and the further outputs are the running ones.
    Source: ONNX BatchNormalization-15
    """
    if x.ndim == 1:  # one channel
        x = waist.reshape(x, [x.shape[0], 1])
        results = _normalized(
            x, [scale, b, input_mean, input_var], epsilon, momentum, training_mode
        )
        return waist.reshape(results[0], x.shape[:1]), *results[1:]
    return _normalized(x, [scale, b, input_mean, input_var], epsilon, momentum, training_mode)


def _normalized(
    x: Tensor, vectors: list[Tensor], epsilon: float, momentum: float, training: int
) -> tuple[Tensor, Tensor, Tensor]:
    wide = float64 if float64 in (x.dtype, vectors[0].dtype) else compute_dtype(x.dtype)
    scale, bias, mean, variance = (waist.cast_to(vector, wide) for vector in vectors)
    data, kept = waist.cast_to(x, wide), (vectors[2], vectors[3])
    if training:
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        now = [waist.reshape(each, [x.shape[1]]) for each in centred(data, axes)[1:]]
        kept = (_moved(vectors[2], now[0], momentum), _moved(vectors[3], now[1], momentum))
        mean, variance = now
    factor = scale / waist.map("sqrt", variance + epsilon)
    normal = (data - per_channel(mean, x.ndim)) * per_channel(factor, x.ndim)
    return waist.cast_to(normal + per_channel(bias, x.ndim), x.dtype), *kept


def _moved(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    """A running statistic after one more batch."""
    moved = waist.cast_to(old, new.dtype) * momentum + new * (1.0 - momentum)
    return waist.cast_to(moved, old.dtype)


@batch_normalization.upgrade(from_version=13)
def batch_normalization_9(
    x: T,
    scale: T,
    b: T,
    mean: T,
    var: T,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    outputs: int | None = None,
) -> tuple[T, T, T]:
    """BatchNormalization that trains where more than one output is asked for."""
    if outputs is not None and outputs > 3:
        raise UnsupportedError(
            f"BatchNormalization before opset 14 gives 3 outputs here, not {outputs}: what it saves for "
            "its gradient is not defined"
        )
    training = int(outputs is not None and outputs > 1)
    if training and not spatial:
        raise ModelError("BatchNormalization trains one mean for each channel: spatial is 1, not 0")
    if spatial:
        return batch_normalization(
            x,
            scale,
            b,
            mean,
            var,
            epsilon=epsilon,
            momentum=momentum,
            training_mode=training,
            outputs=outputs or 1,
        )
    vectors = [reshape(each, [-1]) for each in (scale, b, mean, var)]
    return reshape(batch_normalization(flatten(x), *vectors, epsilon=epsilon), shape(x))
