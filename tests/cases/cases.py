"""Small behaviours that ONNX tools are known to get wrong, with the right answer written down for each.

Expected values are literals or plain NumPy in this file; no other engine is asked.  ``all_cases()`` gives them all:

    @pytest.mark.parametrize("sub", [sub for case in all_cases() for sub in case.subs], ids=str)
"""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import onnx
from casebook import (
    Casebook,
    Such,
    assert_clear,
    b1,
    build,
    expect,
    f16,
    f32,
    i8,
    i32,
    i64,
    inf,
    nan,
    one_of,
    prove,
    ramp,
    refuse,
    u8,
)
from onnx import helper

book = Casebook()
all_cases = book.cases

INT32_MIN, INT32_MAX = np.iinfo(np.int32).min, np.iinfo(np.int32).max
INT64_MIN, INT64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
ORT, REF = "onnxruntime", "reference"


# ------------------------------------------------------------------------------------------ moving data
@book.case("onnx#7467, onnx#5245, onnxruntime#16401, onnxruntime#20801, onnxruntime#8265")
def bc04_pad_reflect_wider():
    """A reflect pad as wide as the axis or wider keeps reflecting, as numpy.pad does, or is refused."""
    options = {"may_raise": True, "wrong": {ORT: "refuses to reflect past the axis"}}
    yield expect(
        "a",
        'y = Pad <mode = "reflect"> (x, pads)',
        {"x": f32([[1, 2], [3, 4], [5, 6]])},
        {"y": f32([[1, 2, 1, 2, 1], [3, 4, 3, 4, 3], [5, 6, 5, 6, 5]])},
        {"pads": i64([0, 2, 0, 1])},
        **options,
    )
    yield expect(
        "b",
        'y = Pad <mode = "reflect"> (x, pads)',
        {"x": f32([1, 2, 3])},
        {"y": f32([2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3])},
        {"pads": i64([5, 4])},
        **options,
    )


@book.case("onnxruntime#26708")
def bc10_pad_before_average_pool():
    """Zeros put in by a Pad of the graph count in the average; only the pool's own padding may be left out."""
    for opset in (19, 21):
        for include in (0, 1):
            yield expect(
                f"opset{opset}_include{include}",
                f"""padded = Pad (x, pads)
                    y = AveragePool <kernel_shape = [2, 2], count_include_pad = {include}> (padded)""",
                {"x": f32([1, 2, 3, 4], 1, 1, 2, 2)},
                {"y": f32([2.5, 1.5, 1.75, 1], 1, 1, 2, 2)},
                {"pads": i64([0, 0, 0, 0, 0, 0, 1, 1])},
                opset=opset,
            )


@book.case("onnx-mlir PR3551, burn-onnx PR487, ROCm/AMDMIGraphX PR2239")
def bc13_scatter_elements_reductions():
    """Each update takes part in the reduction, repeated targets and negative indices included."""
    answers = {
        "add": [[1, 32, 33], [9, 5, 2]],
        "mul": [[1, 400, 90], [24, 5, -24]],
        "min": [[1, 2, 3], [2, 5, -4]],
        "max": [[1, 20, 30], [4, 5, 6]],
    }
    for reduction, answer in answers.items():
        yield expect(
            reduction,
            f'y = ScatterElements <axis = 1, reduction = "{reduction}"> (data, indices, updates)',
            {"data": f32([[1, 2, 3], [4, 5, 6]]), "updates": f32([[10, 20, 30], [2, 3, -4]])},
            {"y": f32(answer)},
            {"indices": i64([[1, 1, -1], [0, -3, 2]])},
        )


@book.case("onnxruntime#11107, onnxruntime#2272, iree#24584, burn-onnx PR477, onnx#7735, onnx#4116")
def bc15_slice_negative_steps():
    """Starts and ends are counted from the end once, then clamped for the direction of the step."""
    reversing = {ORT: "reverses the axis instead of clamping INT64_MAX to its end"}
    table = {
        "reverse_all": (-1, INT64_MIN, -1, [4, 3, 2, 1, 0], {}),
        "end_int64_max_backwards": (-1, INT64_MAX, -1, [], reversing),
        "backwards_from_zero": (0, 5, -1, [], {}),
        "down_to_one": (4, 0, -1, [4, 3, 2, 1], {}),
        "down_by_two": (4, 0, -2, [4, 2], {}),
        "end_before_start_of_axis": (3, -6, -1, [3, 2, 1, 0], {}),
        "start_past_end": (10, 1, -3, [4], {}),
        "both_outside": (-100, 100, 2, [0, 2, 4], {}),
        "end_int32_max": (1, INT32_MAX, 1, [1, 2, 3, 4], {}),
        "end_int32_min": (-1, INT32_MIN, -2, [4, 2, 0], {}),
        "empty": (2, 2, 1, [], {}),
    }
    body = "y = Slice (x, starts, ends, axes, steps)"
    for name, (start, end, step, answer, wrong) in table.items():
        array = i32 if "int32" in name else i64
        consts = {
            "starts": array([start]),
            "ends": array([end]),
            "axes": array([0]),
            "steps": array([step]),
        }
        yield expect(
            name, body, {"x": ramp(5)}, {"y": f32(answer, len(answer))}, consts, wrong=wrong
        )
    consts = {"starts": i64([-1]), "ends": i64([INT64_MIN]), "axes": i64([0]), "steps": i64([-1])}
    yield expect("zero_length_axis", body, {"x": ramp(0, 3)}, {"y": ramp(0, 3)}, consts)


@book.case("TVM#18751, TVM#14660, openvino#21175, onnxruntime PR19381, onnx#5766")
def bc48_split_uneven():
    """Parts are ceil(n / num_outputs) long and the last is what remains; parts may be empty."""

    def parts(*sizes):
        edges = np.cumsum((0, *sizes))
        return {
            f"y{i}": ramp(end - start, start=start)
            for i, (start, end) in enumerate(zip(edges, edges[1:]))
        }

    yield expect(
        "10_into_3", "y0, y1, y2 = Split <num_outputs = 3> (x)", {"x": ramp(10)}, parts(4, 4, 2)
    )
    yield expect(
        "7_into_4",
        "y0, y1, y2, y3 = Split <num_outputs = 4> (x)",
        {"x": ramp(7)},
        parts(2, 2, 2, 1),
    )
    yield expect(
        "zero_length",
        "y0, y1, y2 = Split (x, sizes)",
        {"x": ramp(4)},
        parts(0, 3, 1),
        {"sizes": i64([0, 3, 1])},
    )
    yield expect(
        "5_into_4",
        "y0, y1, y2, y3 = Split <num_outputs = 4> (x)",
        {"x": ramp(5)},
        parts(2, 2, 1, 0),
        may_raise=True,
        wrong={ORT: "refuses an empty last part"},
    )


# ------------------------------------------------------------------------------------------ arithmetic
CASTS = {
    "int8": (3, i8),
    "uint8": (2, u8),
    "int32": (6, i32),
    "bool": (9, b1),
    "float16": (10, f16),
}


@book.case("TVM#19542, TVM PR19626, iree#24591, openvino PR38073, onnx#2285, onnx#5574")
def bc16_cast_out_of_range():
    """Casts truncate, wrap between integers and round to the nearest half; the undefined ones never differ."""
    floats = f32([300, nan, inf, -inf, 2.9, -2.9, -129])
    table = {
        "float_to_int8": (f32([2.9, -2.9, 126.9, -127.9]), "int8", [2, -2, 126, -127]),
        "float_to_uint8": (f32([2.9, 254.9, 0]), "uint8", [2, 254, 0]),
        "float_to_int32": (f32([300, 2.9, -2.9, -129]), "int32", [300, 2, -2, -129]),
        "float_to_bool": (floats, "bool", [True] * 7),
        "int32_to_int8": (i32([200, -1, 256, 32768]), "int8", [-56, -1, 0, 0]),
        "int32_to_uint8": (i32([200, -1, 256, 32768]), "uint8", [200, 255, 0, 0]),
        "float_to_float16": (f32([65504, 65519.9, 65520, 1e-8]), "float16", [65504, 65504, inf, 0]),
    }
    for name, (x, target, answer) in table.items():
        code, array = CASTS[target]
        yield expect(
            name,
            f"y = Cast <to = {code}> (x)",
            {"x": x},
            {"y": array(answer)},
            fold=True,
            exact=True,
        )

    def always_the_same(target):
        code, array = CASTS[target]
        body, like = f"y = Cast <to = {code}> (x)", {"y": array([0])}

        def check(bench):
            at_run_time = bench.outputs(build(body, {"x": floats}, like), {"x": floats})["y"]
            folded = bench.outputs(build(body, {}, like, {"x": floats}), {})["y"]
            assert at_run_time.tolist() == folded.tolist(), (
                f"{at_run_time} at run time, {folded} when folded"
            )
            if bench.route == "run":
                loaded = bench.burnx.load(build(body, {"x": floats}, like), device="reference")
                other = loaded.run({"x": floats})["y"]
                assert at_run_time.tolist() == other.tolist(), (
                    f"{at_run_time} on {bench.device}, {other} on reference"
                )

        return check

    for target in ("int8", "uint8", "int32"):
        yield prove(f"undefined_{target}", always_the_same(target), routes=("run", "source"))


@book.case("TVM PR20170, TVM#6106, openvino PR5173, onnxruntime PR32369")
def bc18_mod_signs():
    """fmod 0 takes the sign of the divisor, fmod 1 that of the dividend, folded or not."""
    ints = {"a": i32([7, -7, 7, -7, -5, 5]), "b": i32([3, 3, -3, -3, 3, -3])}
    floats = {"a": f32([5.5, -5.5, 5.5, -5.5, -0.0]), "b": f32([3, 3, -3, -3, 2])}
    lowest = {"a": i8([-128]), "b": i8([-1])}
    yield expect("int_fmod0", "y = Mod (a, b)", ints, {"y": i32([1, 2, -2, -1, 1, -1])}, fold=True)
    yield expect(
        "int_fmod1", "y = Mod <fmod = 1> (a, b)", ints, {"y": i32([1, -1, 1, -1, -2, 2])}, fold=True
    )
    yield expect(
        "float_fmod1",
        "y = Mod <fmod = 1> (a, b)",
        floats,
        {"y": f32([2.5, -2.5, 2.5, -2.5, 0])},
        fold=True,
    )
    yield expect(
        "float_fmod0",
        "y = Mod (a, b)",
        floats,
        {"y": f32([2.5, 0.5, -0.5, -2.5, 0])},
        fold=True,
        opset=28,
        exact=True,
    )
    for fmod in (0, 1):
        yield expect(
            f"lowest_fmod{fmod}",
            f"y = Mod <fmod = {fmod}> (a, b)",
            lowest,
            {"y": i8([0])},
            fold=True,
        )


@book.case("onnx#7570, onnxruntime#26997, tensorflow-onnx#2174")
def bc19_integer_division():
    """Integer division truncates towards zero; a division that cannot be done never ends the process."""
    yield expect(
        "int64",
        "y = Div (a, b)",
        {"a": i64([9, -9, 9, -9, 1, -1]), "b": i64([4, 4, -4, -4, 2, 2])},
        {"y": i64([2, -2, -2, 2, 0, 0])},
        fold=True,
    )
    yield expect(
        "uint8",
        "y = Div (a, b)",
        {"a": u8([200, 7]), "b": u8([3, 2])},
        {"y": u8([66, 3])},
        fold=True,
    )

    def survives(a, b, folded):
        inputs, consts = ({}, {"a": a, "b": b}) if folded else ({"a": a, "b": b}, {})

        def check(bench):
            try:
                bench.outputs(build("y = Div (a, b)", inputs, {"y": a}, consts), inputs)
            except Exception as error:
                assert str(error), "an error without a message"

        return check

    for folded in (False, True):
        suffix = "@const" if folded else ""
        yield prove(
            f"by_zero{suffix}", survives(i32([1, 0]), i32([0, 0]), folded), routes=("run", "source")
        )
        yield prove(
            f"lowest_by_minus_one{suffix}",
            survives(i32([INT32_MIN]), i32([-1]), folded),
            routes=("run", "source"),
        )


@book.case("onnx#6165, onnx PR6395, onnxruntime#5934, onnxruntime#21455, onnx#6003, TensorRT#4773")
def bc47_clip_and_nan():
    """Clip is Min(max, Max(x, min)), so a min above max gives max; NaN stays NaN in Clip, Min, Max and Relu."""
    yield expect(
        "clip_min_above_max",
        "y = Clip (x, low, high)",
        {"x": f32([-5, 0, 5, nan])},
        {"y": f32([-1, -1, -1, nan])},
        {"low": f32(2), "high": f32(-1)},
        fold=True,
    )
    yield expect(
        "clip_nan",
        "y = Clip (x, low, high)",
        {"x": f32([nan, 3])},
        {"y": f32([nan, 2])},
        {"low": f32(-1), "high": f32(2)},
        fold=True,
    )
    yield expect(
        "min_one_element",
        "y = Min (a, b)",
        {"a": f32([[nan], [1], [5]]), "b": f32([2])},
        {"y": f32([[nan], [1], [2]])},
        fold=True,
    )
    yield expect(
        "max_either_side",
        "y = Max (a, b)",
        {"a": f32([1, nan]), "b": f32([nan, 2])},
        {"y": f32([nan, nan])},
        fold=True,
    )
    yield expect(
        "relu", "y = Relu (x)", {"x": f32([nan, -1, -0.0])}, {"y": f32([nan, 0, 0])}, fold=True
    )


@book.case("TensorRT#4513, TVM#19692, onnx PR2030, burn PR4162")
def bc49_cumsum():
    """exclusive leaves the element itself out, reverse sums from the end; both together are allowed."""
    x = f32([[1, 2, 3], [4, 5, 6]])
    table = {
        "plain": (0, 0, [[1, 3, 6], [4, 9, 15]]),
        "reverse": (0, 1, [[6, 5, 3], [15, 11, 6]]),
        "exclusive": (1, 0, [[0, 1, 3], [0, 4, 9]]),
        "both": (1, 1, [[5, 3, 0], [11, 6, 0]]),
    }
    for name, (exclusive, reverse, answer) in table.items():
        body = f"y = CumSum <exclusive = {exclusive}, reverse = {reverse}> (x, axis)"
        yield expect(name, body, {"x": x}, {"y": f32(answer)}, {"axis": i64(-1)})
    yield expect(
        "int32_axis",
        "y = CumSum (x, axis)",
        {"x": x},
        {"y": f32([[1, 3, 6], [4, 9, 15]])},
        {"axis": i32(1)},
    )


@book.case("openvino#35648, openvino#32839, openvino PR35677, onnxruntime#10491, onnx2tf#602")
def bc50_stable_exponentials():
    """Large, tiny and infinite exponents neither overflow nor lose the small results."""
    rows = {
        "large": ([[1000, 1000]], 1000.6931472, {}),
        "very_negative": ([[-1000, -1001]], -999.6867383, {}),
        "minus_infinity": ([[-inf, -inf]], -inf, {REF: "gives NaN"}),
        "plus_infinity": ([[inf, 0]], inf, {}),
    }
    for name, (row, answer, wrong) in rows.items():
        yield expect(
            f"logsumexp_{name}",
            "y = ReduceLogSumExp <keepdims = 0> (x, axes)",
            {"x": f32(row)},
            {"y": f32([answer])},
            {"axes": i64([1])},
            rtol=2e-7,
            wrong=wrong,
        )
    yield expect(
        "logsumexp_float16",
        "y = ReduceLogSumExp <keepdims = 0> (x, axes)",
        {"x": f16([12, 12])},
        {"y": f16(12.693)},
        {"axes": i64([0])},
        rtol=0,
        atol=0.008,
    )
    yield expect(
        "logsoftmax",
        "y = LogSoftmax (x)",
        {"x": f32([1000, 0])},
        {"y": f32([0, -1000])},
        wrong={REF: "gives -inf"},
    )
    yield expect(
        "softplus",
        "y = Softplus (x)",
        {"x": f32([-20, 100, 1000])},
        {"y": f32([2.0611537e-9, 100, 1000])},
        rtol=1e-4,
        atol=0,
    )
    yield expect(
        "celu", "y = Celu <alpha = 2.0> (x)", {"x": f32([100, -1])}, {"y": f32([100, -0.7869387])}
    )
    yield expect("elu", "y = Elu (x)", {"x": f32([100, -1000])}, {"y": f32([100, -1])})
    yield expect(
        "softmax_minus_infinity",
        "y = Softmax (x)",
        {"x": f32([[-inf, -inf]])},
        {"y": f32([[nan, nan]])},
    )


# ------------------------------------------------------------------------------------------ order and reduction
@book.case("onnx PR6593, onnx PR8194, onnxruntime#9843")
def bc20_topk_ties():
    """Of equal values the lower index comes first; the smallest of unsigned and of extreme values are right."""

    def topk(name, x, k, values, indices, largest=1, sort=1, axis=-1, **options):
        body = (
            f"values, indices = TopK <axis = {axis}, largest = {largest}, sorted = {sort}> (x, k)"
        )
        return expect(
            name, body, {"x": x}, {"values": values, "indices": indices}, {"k": i64([k])}, **options
        )

    row = f32([[2, 5, 5, 1, 5, 2]])
    yield topk("largest", row, 4, f32([[5, 5, 5, 2]]), i64([[1, 2, 4, 0]]), axis=1)
    yield topk("smallest", row, 4, f32([[1, 2, 2, 5]]), i64([[3, 0, 5, 1]]), largest=0, axis=1)
    yield topk(
        "uint8_smallest", u8([0, 200, 3, 0, 255]), 3, u8([0, 0, 3]), i64([0, 3, 2]), largest=0
    )
    yield topk(
        "int64_smallest",
        i64([INT64_MIN, 0, INT64_MAX, 0]),
        3,
        i64([INT64_MIN, 0, 0]),
        i64([0, 1, 3]),
        largest=0,
    )
    yield topk("none", row, 0, f32([], 1, 0), i64([], 1, 0), axis=1)
    unsorted = Such(i64([[0, 0]]), lambda a: sorted(a.ravel()) == [1, 2], "1 and 2 in any order")
    yield topk("unsorted", row, 2, f32([[5, 5]]), unsorted, sort=0, axis=1)


@book.case("onnx#4716, onnx PR7754, openvino#35898, openvino#36233")
def bc21_nan_ordering():
    """NaN is greater than everything in TopK and wins in ArgMax and ReduceMax, as in NumPy."""
    x = f32([1, nan, -2, inf, nan, 3])
    ignoring = {ORT: "leaves NaN out"}
    for largest, values, indices in (
        (1, [nan, nan, inf, 3], [1, 4, 3, 5]),
        (0, [-2, 1, 3, inf], [2, 0, 5, 3]),
    ):
        yield expect(
            f"topk_largest{largest}",
            f"values, indices = TopK <largest = {largest}> (x, k)",
            {"x": x},
            {"values": f32(values), "indices": i64(indices)},
            {"k": i64([4])},
        )
    yield expect("argmax", "y = ArgMax <keepdims = 0> (x)", {"x": x}, {"y": i64(1)}, wrong=ignoring)
    yield expect(
        "reduce_max", "y = ReduceMax <keepdims = 0> (x)", {"x": x}, {"y": f32(nan)}, wrong=ignoring
    )


@book.case(
    "onnxruntime#7563, onnxruntime#8146, onnxruntime#3208, onnxruntime#26041, onnxruntime#681, onnxruntime#4559"
)
def bc33_zero_size_and_scalars():
    """Reducing nothing gives the operation's neutral element; tensors without axes or elements are ordinary."""
    neutral = {
        "Sum": 0,
        "SumSquare": 0,
        "L1": 0,
        "L2": 0,
        "Prod": 1,
        "Max": -inf,
        "Min": inf,
        "LogSum": -inf,
        "LogSumExp": -inf,
    }
    answers = {name: f32(np.full((2, 3), value)) for name, value in neutral.items()}
    answers["Mean"] = one_of(f32(np.full((2, 3), nan)), f32(np.zeros((2, 3))))
    for name, answer in answers.items():
        body = f"y = Reduce{name} <keepdims = 0> (x, axes)"
        yield expect(
            f"empty_axis_{name.lower()}",
            body,
            {"x": ramp(2, 0, 3)},
            {"y": answer},
            {"axes": i64([1])},
        )
    yield expect("empty_vector_sum", "y = ReduceSum (x)", {"x": ramp(0)}, {"y": f32([0])})
    yield expect(
        "empty_axis_int32_max",
        "y = ReduceMax <keepdims = 0> (x, axes)",
        {"x": ramp(0, 2, dtype=np.int32)},
        {"y": i32([INT32_MIN, INT32_MIN])},
        {"axes": i64([0])},
    )
    for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp"):
        wrong = {REF: "fails on a scalar"} if name == "LogSumExp" else {}
        yield expect(
            f"scalar_{name.lower()}",
            f"y = Reduce{name} (x)",
            {"x": f32(2.5)},
            {"y": f32(2.5)},
            wrong=wrong,
        )
    yield expect(
        "concat_empty",
        "y = Concat <axis = 0> (a, b)",
        {"a": ramp(0), "b": f32([1, 2])},
        {"y": f32([1, 2])},
    )
    rank_one = {ORT: "gives a scalar one coordinate"}
    for name, x, found in ("nonzero_scalar", 5, 1), ("nonzero_zero_scalar", 0, 0):
        yield expect(
            name, "y = NonZero (x)", {"x": f32(x)}, {"y": i64([], 0, found)}, wrong=rank_one
        )
    column = f32([1, 2, 3], 3, 1)
    yield expect(
        "expand_both_ways",
        "y = Expand (x, shape)",
        {"x": column},
        {"y": f32(np.broadcast_to(column, (2, 3, 6)))},
        {"shape": i64([2, 1, 6])},
    )
    yield expect(
        "expand_by_one", "y = Expand (x, shape)", {"x": column}, {"y": column}, {"shape": i64([1])}
    )
    yield expect(
        "reshape_allowzero",
        "y = Reshape <allowzero = 1> (x, shape)",
        {"x": ramp(0, 3)},
        {"y": ramp(3, 0)},
        {"shape": i64([3, 0])},
    )
    yield refuse(
        "reshape_undetermined",
        "y = Reshape (x, shape)",
        {"x": ramp(0, 3)},
        {"y": ramp(0, 3)},
        {"shape": i64([0, -1])},
    )


# ------------------------------------------------------------------------------------------ signal and image
@book.case("onnxruntime#6146, onnxruntime#6921, onnxruntime#14265, onnxruntime PR27554, onnx#3428")
def bc23_roi_align():
    """max takes the greatest of a sample's four weighted corners; half_pixel shifts by half; a ROI may be a point."""
    flat = [[0.75, 0.75], [0.75, 0.75]]
    table = {
        ("avg", "half_pixel"): [[[1.5625, 3], [7.3125, 8.75]], flat, [[0, 0.0625], [0.25, 0.625]]],
        ("avg", "output_half_pixel"): [
            [[3.75, 5.25], [9.75, 11.25]],
            [[4.5, 5], [6.5, 7]],
            [[0, 0.5], [2, 2.5]],
        ],
        ("max", "half_pixel"): [[[2.5, 3.28125], [7, 7.65625]], flat, [[0, 0.25], [1, 1]]],
        ("max", "output_half_pixel"): [
            [[3.828125, 4.59375], [7.109375, 7.65625]],
            [[3.28125, 4.59375], [3.28125, 4.59375]],
            [[0, 0.75], [3, 2.8125]],
        ],
    }
    for (mode, transform), answer in table.items():
        yield expect(
            f"{mode}_{transform}",
            f"""y = RoiAlign <mode = "{mode}", coordinate_transformation_mode = "{transform}", output_height = 2,
                output_width = 2, sampling_ratio = 2, spatial_scale = 1.0> (x, rois, batch)""",
            {
                "x": ramp(1, 1, 4, 4),
                "rois": f32([[0, 0, 3, 3], [1.25, 0.5, 1.25, 0.5], [-1, -1, 1, 1]]),
            },
            {"y": f32(answer, 3, 1, 2, 2)},
            {"batch": i64([0, 0, 0])},
        )


@book.case("onnxruntime#10607, onnxruntime#28090, onnx#4033, onnx2tf#274")
def bc37_grid_sample():
    """Cubic clamps each of its taps, not the coordinate; reflection turns at the edge that align_corners names."""
    table = {
        "cubic_border_0": ("cubic", "border", 0, [-0.54, 9.63875, 1.5, 15]),
        "cubic_border_1": ("cubic", "border", 1, [0.281777, 9.57375, 1.359375, 15]),
        "cubic_zeros_0": ("cubic", "zeros", 0, [-0.33048, 0.796572, -0.140625, 0]),
        "linear_reflection_0": ("linear", "reflection", 0, [0, 9.8, 3.5, 7.5]),
        "linear_reflection_1": ("linear", "reflection", 1, [0.375, 9.3, 4.5, 7.5]),
        "nearest_reflection_0": ("nearest", "reflection", 0, [0, 11, 6, 5]),
        "nearest_reflection_1": ("nearest", "reflection", 1, [0, 11, 6, 10]),
    }
    grid = f32([-0.95, -0.95, 1.2, 0.1, 0, -1.5, 2, 2], 1, 1, 4, 2)
    for name, (mode, padding, corners, answer) in table.items():
        for opset in (20, 16) if name in ("cubic_border_0", "linear_reflection_0") else (20,):
            spelled, wrong = mode, {}
            if opset == 16:
                spelled = {"cubic": "bicubic", "linear": "bilinear"}[mode]
                wrong = {REF: "knows only the newer names of the modes"}
            elif name.startswith("cubic_border"):
                wrong = {REF: "clamps the coordinate before it weighs the taps"}
            yield expect(
                name if opset == 20 else f"{name}_opset16",
                f'y = GridSample <mode = "{spelled}", padding_mode = "{padding}", align_corners = {corners}> (x, grid)',
                {"x": ramp(1, 1, 4, 4)},
                {"y": f32(answer, 1, 1, 1, 4)},
                {"grid": grid},
                opset=opset,
                wrong=wrong,
            )


def complex_pairs(values):
    """Complex numbers as a trailing axis of real and imaginary part."""
    return f32(np.stack([np.real(values), np.imag(values)], axis=-1))


@book.case("onnx#5920, onnx PR7574, tract PR2444, onnxruntime#14316, onnxruntime#13236, onnx#4699")
def bc38_fourier():
    """One-sided shortens the transformed axis, its inverse restores it; STFT frames: floor((n - frame) / step) + 1."""
    six, half = (
        ramp(1, 6, 1, start=1),
        f32([[21, 0], [-3, 5.196152], [-3, 1.732051], [-3, 0]], 1, 4, 2),
    )
    dft = "y = DFT <onesided = {}, inverse = {}> (x, {}, axis)"
    yield expect("onesided", dft.format(1, 0, '""'), {"x": six}, {"y": half}, {"axis": i64(1)})
    yield expect(
        "onesided_opset17",
        "y = DFT <axis = 1, onesided = 1> (x)",
        {"x": six},
        {"y": half},
        opset=17,
    )
    matrix = ramp(1, 3, 4, 1)
    answer = complex_pairs(np.fft.rfft(matrix[..., 0], axis=1))
    yield expect(
        "onesided_inner_axis",
        dft.format(1, 0, '""'),
        {"x": matrix},
        {"y": answer},
        {"axis": i64(1)},
    )
    yield expect(
        "onesided_inverse",
        dft.format(1, 1, "length"),
        {"x": half},
        {"y": six},
        {"length": i64(6), "axis": i64(1)},
    )
    yield expect(
        "shortened",
        dft.format(0, 0, "length"),
        {"x": six},
        {"y": f32([[10, 0], [-2, 2], [-2, 0], [-2, -2]], 1, 4, 2)},
        {"length": i64(4), "axis": i64(1)},
    )
    signal = ramp(1, 10, 1)
    frames = np.stack([signal[0, start : start + 4, 0] for start in (0, 3, 6)])
    yield expect(
        "stft_frames",
        "y = STFT (signal, step, window, length)",
        {"signal": signal},
        {"y": complex_pairs(np.fft.rfft(frames))[None]},
        {"step": i64(3), "window": f32([1, 1, 1, 1]), "length": i64(4)},
    )


@book.case("onnx PR7805, burn-onnx#289")
def bc51_lrn():
    """The window runs over channels: floor((size - 1) / 2) before and ceil((size - 1) / 2) after."""
    first = [0.16666667, 0.13333333, 0.1, 0.15384615]
    second = [0.08064516, 0.05405405, 0.04666667, 0.07017544]
    lrn = "y = LRN <size = {0}, alpha = {0}.0, beta = 1.0, bias = 1.0> (x)"
    looping = {REF: "loops over the batch instead of the channels"}
    yield expect(
        "one_sample",
        lrn.format(3),
        {"x": ramp(1, 4, 1, 1, start=1)},
        {"y": f32(first, 1, 4, 1, 1)},
        wrong=looping,
    )
    yield expect(
        "two_samples",
        lrn.format(3),
        {"x": ramp(2, 4, 1, 1, start=1)},
        {"y": f32(first + second, 2, 4, 1, 1)},
        wrong=looping,
    )
    yield expect(
        "even_size",
        lrn.format(2),
        {"x": ramp(1, 4, 1, 1, start=1)},
        {"y": f32([1 / 6, 2 / 14, 3 / 26, 4 / 17], 1, 4, 1, 1)},
        wrong={**looping, ORT: "refuses an even size"},
    )


# ------------------------------------------------------------------------------------------ numbers in few bits
@book.case(
    "tract PR2850, tract PR2672, onnxruntime#18576, onnxruntime PR32452, onnxruntime#25045, onnx#4225"
)
def bc39_quantize_rounding():
    """Quantizing rounds ties to even before the zero point is added, then saturates."""
    linear = "y = QuantizeLinear (x, scale, zero)"
    yield expect(
        "int8_ties",
        linear,
        {"x": f32([0.25, 0.75, 1.25, -0.25, -0.75, 200, -200])},
        {"y": i8([0, 2, 2, 0, -2, 127, -128])},
        {"scale": f32(0.5), "zero": i8(0)},
        fold=True,
    )
    yield expect(
        "uint8_odd_zero_point",
        linear,
        {"x": f32([0.25, 0.75, -0.25, -1.25])},
        {"y": u8([3, 5, 3, 1])},
        {"scale": f32(0.5), "zero": u8(3)},
        fold=True,
    )
    yield expect(
        "float16",
        linear,
        {"x": f16([0.06, -0.06, 0.14])},
        {"y": i8([1, -1, 1])},
        {"scale": f16(0.1), "zero": i8(0)},
        fold=True,
    )
    yield expect(
        "int4",
        "q = QuantizeLinear <output_dtype = 22> (x, scale)\n y = Cast <to = 3> (q)",
        {"x": f32([-9.5, -8.5, -0.5, 0.5, 1.5, 7.5, 9])},
        {"y": i8([-8, -8, 0, 0, 2, 7, 7])},
        {"scale": f32(1)},
        fold=True,
    )
    dynamic = {
        "dynamic": ([-127, 128, 0.5, 2.5], [0, 255, 127, 129], f32(1), 127),
        "dynamic_even_zero_point": ([-253, 257], [0, 254], f32(2), 126),
        "dynamic_range_holds_zero": ([2, 4], [127, 255], f32(4 / 255), 0),
        "dynamic_zeros": ([0, 0], [0, 0], Such(f32(0), np.isfinite, "a finite scale"), 0),
    }
    for name, (x, y, scale, zero) in dynamic.items():
        outputs = {"y": u8(y), "scale": scale, "zero": u8(zero)}
        yield expect(
            name, "y, scale, zero = DynamicQuantizeLinear (x)", {"x": f32(x)}, outputs, fold=True
        )


# ------------------------------------------------------------------------------------------ attention and recurrence
@book.case("onnx#7865, onnx PR7867, onnx#8054, onnx PR8068, onnxruntime PR28379, onnxruntime#28215")
def bc44_attention_masks():
    """The softcap comes before the mask; a query that sees no key gives zeros."""
    inputs = {
        "q": f32([[1, 0], [0, 1]], 1, 1, 2, 2),
        "k": f32([[1, 0], [0, 1], [1, 1]], 1, 1, 3, 2),
        "v": f32([[1, 2], [3, 4], [5, 6]], 1, 1, 3, 2),
    }
    capped = {"y": f32([[1, 2], [2.295361, 3.295361]], 1, 1, 2, 2)}
    unseen = {"y": f32([[0, 0], [2.339523, 3.339523]], 1, 1, 2, 2)}
    mask = {"mask": b1([[True, False, False], [True, True, False]])}
    for opset in (23, 24, 25):
        body = "y = Attention <softcap = 1.0> (q, k, v, mask)"
        yield expect(f"softcap_opset{opset}", body, inputs, capped, mask, opset=opset)
    masks = {
        "bool_row_unseen": b1([[False, False, False], [True, True, False]]),
        "float_row_unseen": f32([[-inf, -inf, -inf], [0, 0, -inf]]),
    }
    for name, mask in masks.items():
        for opset in (23, 24, 25):
            body = "y = Attention (q, k, v, mask)"
            yield expect(f"{name}_opset{opset}", body, inputs, unseen, {"mask": mask}, opset=opset)


@book.case("onnx PR7297, onnx PR8068, onnx PR6501")
def bc45_attention_with_past():
    """A causal query sees the past and the keys up to its own; heads share keys; 3-D inputs hold heads side by side."""
    queries = [[[2, 1], [0, -1]], [[-1, -2], [-2, -2]]]
    k, v = [[-2, 2], [1, 2]], [[0, 1], [2, 1]]
    all_k, all_v = [[1, 1], *k], [[10, 20], *v]
    yield expect(
        "past",
        'y, present_k, present_v = Attention <is_causal = 1> (q, k, v, "", past_k, past_v)',
        {
            "q": f32(queries, 1, 2, 2, 2),
            "k": f32(k, 1, 1, 2, 2),
            "v": f32(v, 1, 1, 2, 2),
            "past_k": f32([1, 1], 1, 1, 1, 2),
            "past_v": f32([10, 20], 1, 1, 1, 2),
        },
        {
            "y": f32(
                [
                    [[9.716821, 19.46196], [5.531409, 10.566307]],
                    [[3.302384, 7.27453], [0.577374, 2.046143]],
                ],
                1,
                2,
                2,
                2,
            ),
            "present_k": f32(all_k, 1, 1, 3, 2),
            "present_v": f32(all_v, 1, 1, 3, 2),
        },
        opset=24,
    )
    yield expect(
        "no_past",
        "y = Attention <is_causal = 1> (q, k, v)",
        {"q": f32(queries, 1, 2, 2, 2), "k": f32(all_k, 1, 1, 3, 2), "v": f32(all_v, 1, 1, 3, 2)},
        {
            "y": f32(
                [[[10, 20], [6.697616, 13.72547]], [[10, 20], [0.558072, 2.060337]]], 1, 2, 2, 2
            )
        },
        opset=24,
    )
    yield expect(
        "heads_side_by_side",
        "y = Attention <is_causal = 1, q_num_heads = 2, kv_num_heads = 1> (q, k, v)",
        {
            "q": f32([[2, 1, -1, -2], [0, -1, -2, -2]], 1, 2, 4),
            "k": f32(k, 1, 2, 2),
            "v": f32(v, 1, 2, 2),
        },
        {"y": f32([[0, 1, 0, 1], [1, 1, 0.028332, 1]], 1, 2, 4)},
        opset=24,
    )


@book.case("onnx PR6461, vllm-ascend PR12820, onnxruntime-genai PR244")
def bc46_rotary_embedding():
    """Pairs are half apart, or neighbours when interleaved; only the first rotary_embedding_dim features turn."""
    x, ids = ramp(1, 1, 2, 4, start=1), {"ids": i64([[2, 1]])}
    cos, sin = f32([[1, 0.5], [0, 1], [0.6, 0.8]]), f32([[0, 0.5], [1, 0], [0.8, 0.6]])
    rotary = "y = RotaryEmbedding {} (x, cos, sin, ids)"
    table = {
        "halves": ("", cos, sin, [[-1.8, -0.8, 2.6, 4.4], [-7, 6, 5, 8]]),
        "interleaved": ("<interleaved = 1>", cos, sin, [[-1, 2, 0, 5], [-6, 5, 7, 8]]),
        "partial": (
            "<rotary_embedding_dim = 2>",
            cos[:, :1],
            sin[:, :1],
            [[-1, 2, 3, 4], [-6, 5, 7, 8]],
        ),
    }
    for name, (attributes, c, s, answer) in table.items():
        yield expect(
            name,
            rotary.format(attributes),
            {"x": x, **ids},
            {"y": f32(answer, 1, 1, 2, 4)},
            {"cos": c, "sin": s},
            opset=23,
        )
    yield expect(
        "no_ids",
        "y = RotaryEmbedding <num_heads = 1> (x, cos, sin)",
        {"x": x[0], "cos": cos[None, :2], "sin": sin[None, :2]},
        {"y": f32([[1, -1, 3, 3], [-7, 6, 5, 8]], 1, 2, 4)},
        opset=23,
    )


@book.case("onnx-tensorflow#409, onnx2c#9, onnx-mlir PR217, torch PR11368")
def bc26_lstm():
    """Steps past a sequence's end give zero and keep the state; backwards starts there; layout 1 is batch first."""
    # axes: time, direction, batch, hidden
    y = f32(
        [
            [[0.259442, 0.472872], [-0.078265, -0.029015]],
            [[0.698014, 0.050576], [-0.058953, 0.145940]],
            [[0.474574, 0.000000], [0.017248, 0.000000]],
        ],
        3,
        2,
        2,
        1,
    )
    y_h = f32([[0.474574, 0.050576], [-0.078265, -0.029015]], 2, 2, 1)
    y_c = f32([[0.938763, 0.127811], [-0.187359, -0.077421]], 2, 2, 1)
    x = f32([[1, 2], [3, -1], [0.5, 4]], 3, 2, 1)
    weights = {
        "w": f32([[0.5] * 4, [-0.25] * 4], 2, 4, 1),
        "r": f32([0.1] * 8, 2, 4, 1),
        "b": f32([0] * 16, 2, 8),
        "h": f32([0] * 4, 2, 2, 1),
        "c": f32([0.2] * 4, 2, 2, 1),
        "p": f32([0.3] * 6, 2, 3),
    }
    lengths = {"lengths": i32([3, 2])}
    lstm = 'y, y_h, y_c = LSTM <hidden_size = 1, direction = "bidirectional"{}> (x, w, r, {}, {}, h, c, p)'
    ignoring, refusing = {REF: "ignores sequence_lens"}, {ORT: "refuses layout 1"}
    yield expect(
        "lengths",
        lstm.format("", "b", "lengths"),
        {"x": x, **lengths},
        {"y": y, "y_h": y_h, "y_c": y_c},
        weights,
        wrong=ignoring,
    )
    swapped = {name: value.swapaxes(0, 1) for name, value in weights.items() if name in "hc"}
    batch_first = {
        "y": y.transpose(2, 0, 1, 3),
        "y_h": y_h.swapaxes(0, 1),
        "y_c": y_c.swapaxes(0, 1),
    }
    yield expect(
        "batch_first",
        lstm.format(", layout = 1", "b", "lengths"),
        {"x": x.swapaxes(0, 1), **lengths},
        batch_first,
        {**weights, **swapped},
        wrong={**ignoring, **refusing},
    )
    del weights["b"]
    whole = lstm_answers(x, **weights)
    yield expect("inputs_left_out", lstm.format("", '""', '""'), {"x": x}, whole, weights)
    batch_first = {
        "y": whole["y"].transpose(2, 0, 1, 3),
        "y_h": whole["y_h"].swapaxes(0, 1),
        "y_c": whole["y_c"].swapaxes(0, 1),
    }
    yield expect(
        "batch_first_whole",
        lstm.format(", layout = 1", '""', '""'),
        {"x": x.swapaxes(0, 1)},
        batch_first,
        {**weights, **swapped},
        wrong=refusing,
    )


def lstm_answers(x, w, r, h, c, p):
    """A bidirectional LSTM with peepholes, without bias: gates i, o, f, c as the operator orders them."""

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    steps = len(x)
    y = np.zeros((steps, *h.shape))
    last_h, last_c = np.zeros(h.shape), np.zeros(h.shape)
    for direction in (0, 1):
        state_h, state_c = h[direction].astype(np.float64), c[direction].astype(np.float64)
        peep_i, peep_o, peep_f = np.split(p[direction], 3)
        for step in reversed(range(steps)) if direction else range(steps):
            gates = x[step] @ w[direction].T + state_h @ r[direction].T
            i, o, f, g = np.split(gates, 4, axis=-1)
            i, f = sigmoid(i + peep_i * state_c), sigmoid(f + peep_f * state_c)
            state_c = f * state_c + i * np.tanh(g)
            state_h = sigmoid(o + peep_o * state_c) * np.tanh(state_c)
            y[step, direction] = state_h
        last_h[direction], last_c[direction] = state_h, state_c
    return {"y": f32(y), "y_h": f32(last_h), "y_c": f32(last_c)}


# ------------------------------------------------------------------------------------------ control flow
@book.case("onnxruntime#1272, onnxruntime PR1233, onnx#3122")
def bc28_loop_zero_iterations():
    """A loop that never runs gives its initial state and an empty stack of the right rank and length."""
    body = """
        last, stack = Loop (trips, go, start) <body = step (int64 i, bool go_in, float[2] state)
                => (bool go_out, float[2] next, float[2] item) {
            next = Add (state, one)
            item = Identity (next)
            head = Gather (next, zero)
            go_out = Less (head, three)
        }>"""
    tensors = {"one": f32([1, 1]), "zero": i64(0), "three": f32(3)}
    for name, trips, go in ("no_trips", 0, True), ("false_at_once", 5, False):
        for suffix, inputs, consts in (
            ("", {}, {"trips": i64(trips), "go": b1(go)}),
            ("@live", {"trips": i64(trips), "go": b1(go)}, {}),
        ):
            yield expect(
                name + suffix,
                body,
                {"start": f32([1, 2]), **inputs},
                {"last": f32([1, 2]), "stack": f32([], 0, 2)},
                {**tensors, **consts},
                live=False,
                wrong={REF: "fails on a loop that never runs"},
            )


@book.case(
    "openvino PR36181, AMD-SHARK-ModelDev#696, tensorflow-onnx PR507, onnxruntime#3900, onnx2torch#239"
)
def bc31_if_of_two_ranks():
    """The branches of an If may differ in rank and take everything from outside."""
    body = """
        y = If (go) <
            then_branch = larger () => (float[2, 2] a) { a = Add (x, big) },
            else_branch = total () => (float b) { b = ReduceSum <keepdims = 0> (x) }
        >"""
    x = {"x": f32([[1, 2], [3, 4]])}
    larger, total = {"y": f32([[11, 22], [13, 24]])}, {"y": f32(10)}
    big = {"big": f32([10, 20])}
    true, false = {"go": b1(True), **x}, {"go": b1(False), **x}
    yield expect(
        "chosen_at_run_time",
        body,
        true,
        larger,
        big,
        more=[(false, total)],
        live=False,
        dims={"y": None},
    )
    yield expect("then", body, x, larger, {**big, "go": b1(True)}, live=False)
    yield expect("else", body, x, total, {**big, "go": b1(False)}, live=False)


@book.case("onnxruntime#729, onnxscript PR2348, netron#1052, onnxscript#2157")
def bc55_captures_and_shadows():
    """A branch sees values of every graph around it; a name used again inside means the inner value."""
    body = """
        y = If (outer) <
            then_branch = middle () => (float[2] m) {
                h = Mul (x, k)
                m = If (inner) <
                    then_branch = plus () => (float[2] p) { p = Add (h, k) },
                    else_branch = minus () => (float[2] q) { q = Sub (h, x) }
                >
            },
            else_branch = other () => (float[2] o) { o = Identity (k) }
        >"""
    x, k = f32([1, 2]), {"k": f32([10, 100])}
    answers = {(True, True): [20, 300], (True, False): [9, 198], (False, True): [10, 100]}
    runs = [
        ({"outer": b1(a), "inner": b1(b), "x": x}, {"y": f32(y)}) for (a, b), y in answers.items()
    ]
    yield expect("two_levels", body, *runs[0], k, more=runs[1:], live=False)
    for (outer, inner), answer in answers.items():
        consts = {"outer": b1(outer), "inner": b1(inner), **k}
        yield expect(
            f"two_levels_{outer:d}{inner:d}", body, {"x": x}, {"y": f32(answer)}, consts, live=False
        )
    shadow = """
        hidden = Neg (x)
        twice = If (go) <
            then_branch = inner () => (float[2] hidden) { hidden = Add (x, x) },
            else_branch = plain () => (float[2] same) { same = Identity (x) }
        >
        y = Add (twice, hidden)"""
    runs = [
        ({"go": b1(True), "x": x}, {"y": f32([1, 2])}),
        ({"go": b1(False), "x": x}, {"y": f32([0, 0])}),
    ]
    yield expect("shadowed_name", shadow, *runs[0], more=runs[1:], may_raise=True)


@book.case(
    "onnxruntime#12506, onnxruntime PR12445, onnxruntime#22687, onnx#5816, onnx#4892, onnxruntime PR14734"
)
def bc56_functions():
    """Attributes reach nested functions under other names, defaults hold, and a body's names are its own."""
    header = '<domain: "local", opset_import: ["": 21, "local": 1]>'
    yield expect(
        "attributes",
        "y = local.outer <alpha_in = 0.25> (x)",
        {"x": f32([-4, 4])},
        {"y": f32([-0.75, 4.25])},
        functions=[
            header + " inner <slope> (x) => (y) { y = LeakyRelu <alpha: float = @slope> (x) }",
            header
            + """ outer <alpha_in> (x) => (y) {
                t = local.inner <slope: float = @alpha_in> (x)
                c = Constant <value_float: float = @alpha_in> ()
                y = Add (t, c)
            }""",
        ],
        wrong={REF: "fails on nested attribute references"},
    )
    yield expect(
        "same_names",
        "t = Neg (x)\n u = local.fn (x)\n y = Add (t, u)",
        {"x": f32([-4, 3])},
        {"y": f32([-12, 6])},
        functions=[header + " fn (a) => (t) { x = Abs (a) \n t = Mul (x, a) }"],
    )
    yield expect(
        "default",
        "y = local.leak (x)",
        {"x": f32([-4, 3])},
        {"y": f32([-2, 3])},
        functions=[
            header
            + " leak <alpha: float = 0.5> (x) => (y) { y = LeakyRelu <alpha: float = @alpha> (x) }"
        ],
        wrong={REF: "fails on a default attribute"},
    )


# ------------------------------------------------------------------------------------------ the file itself
@book.case("onnxruntime#22035, torch-mlir#4550, burn-onnx#106, onnx-mlir PR217, onnx#6249")
def bc32_omitted_inputs_and_outputs():
    """An empty name is an absent value, for inputs in the middle and for outputs alike."""
    yield expect(
        "clip_no_min",
        'y = Clip (x, "", high)',
        {"x": f32([-5, 0, 5])},
        {"y": f32([-5, 0, 2])},
        {"high": f32(2)},
    )
    x = f32([[1, 2], [3, 4]])
    for noop, answer in (0, f32(10)), (1, x):
        body = f"y = ReduceSum <keepdims = 0, noop_with_empty_axes = {noop}> (x, {{}})"
        yield expect(f"no_axes_noop{noop}", body.format('""'), {"x": x}, {"y": answer})
        yield expect(
            f"empty_axes_noop{noop}",
            body.format("axes"),
            {"x": x},
            {"y": answer},
            {"axes": i64([], 0)},
        )
    yield expect(
        "dropped_output",
        """"", last = GRU <hidden_size = 1> (x, w, r, b, "", h)
           y = Clip (v, "", high)""",
        {"x": f32([1, 2, -1], 3, 1, 1), "v": f32([3, 1, 2])},
        {"last": f32(0.220689, 1, 1, 1), "y": f32([2, 1, 2])},
        {
            "w": f32([0.5, 0.3, -0.2], 1, 3, 1),
            "r": f32([0.1, 0.4, 0.7], 1, 3, 1),
            "b": f32([0] * 6, 1, 6),
            "h": f32(0.5, 1, 1, 1),
            "high": f32(2),
        },
        wrong={REF: "takes the dropped output for the absent min"},
    )


def add_inputs(*names):
    """List initializers among the graph's inputs as well."""

    def alter(model):
        for tensor in model.graph.initializer:
            if tensor.name in names:
                model.graph.input.append(
                    helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                )

    return alter


def oldest_ir(model):
    add_inputs("w", "w2")(model)
    model.ir_version = 3


@book.case("onnxruntime PR1324, onnxruntime PR3449, onnxscript PR1944, onnx#1449, onnx PR1718")
def bc54_overridable_initializer():
    """From IR 4 an initializer that is also an input is a default; in IR 3 it is merely a constant."""
    body, x = "s = Add (w, w2)\n y = Mul (x, s)", {"x": f32([1, 2])}
    consts = {"w": f32([10, 20]), "w2": f32([1, 1])}
    default, overridden = {"y": f32([11, 42])}, {"y": f32([1, 2])}
    w = {"w": f32([0, 0])}
    yield expect("default", body, x, default, consts, alter=add_inputs("w"), live=False)
    yield expect(
        "override",
        body,
        x,
        default,
        consts,
        more=[({**x, **w}, overridden)],
        alter=add_inputs("w"),
        live=False,
        routes=("run", "source"),
    )
    yield expect("ir3_default", body, x, default, consts, alter=oldest_ir, opset=9, live=False)


def without_nodes(model):
    del model.graph.node[:]


def outputs_named(*names):
    """Make these the graph's outputs, of the types that the names have already."""

    def alter(model):
        graph = model.graph
        known = {value.name: value for value in (*graph.input, *graph.output)}
        wanted = [known[name] for name in names]
        del graph.output[:]
        graph.output.extend(wanted)

    return alter


@book.case(
    "torch#173076, torch PR53219, onnxruntime PR8654, onnxruntime PR7260, ir-py PR269, onnx-mlir#1376, burn#2592"
)
def bc57_graph_outputs():
    """An output may be an input, an initializer, listed twice or used inside; nodes may be out of order."""
    x, negated, nine = f32([1, 2]), f32([-1, -2]), {"w": f32([9])}
    yield expect("no_nodes", "x_ = Identity (x)", {"x": x}, {"x": x}, alter=without_nodes)
    yield expect(
        "initializer_and_input",
        "y = Neg (x)",
        {"x": x},
        {"y": negated, "w": f32([9]), "x": x},
        nine,
        live=False,
    )
    yield expect(
        "listed_twice",
        "y = Neg (x)",
        {"x": x},
        {"y": negated, "w": f32([9]), "x": x},
        nine,
        live=False,
        alter=outputs_named("y", "y", "w", "x"),
    )
    yield expect(
        "used_inside",
        "r = Relu (x)\n y = Neg (r)",
        {"x": f32([-1, 2])},
        {"r": f32([0, 2]), "y": f32([0, -2])},
    )
    yield expect(
        "out_of_order",
        "y = Add (negated, x)\n negated = Neg (x)",
        {"x": x},
        {"y": f32([0, 0])},
        may_raise=True,
        wrong={REF: "refuses nodes out of order"},
    )


@book.case(
    "onnxruntime#32416, onnxscript#2810, OnnxSlim#38, OnnxSlim#305, onnxruntime#4110, onnxsim PR463"
)
def bc63_folding_keeps_meaning():
    """Folding and fusing change no value, no shape, and nothing that another node or an output still needs."""
    x = f32([1, -2, 3])
    yield expect(
        "identity_chain",
        """middle = Cast <to = 1> (x)
           half = Div (one, two)
           k = Mul (half, two)
           y = Mul (middle, k)""",
        {"x": x},
        {"y": x},
        {"one": f32(1), "two": f32(2)},
    )
    slices = {
        "from1": ("start = 1", [3, 4]),
        "from_minus2": ("start = -2", [3, 4]),
        "to_minus1": ("start = 0, end = -1", [2, 3]),
        "end_past": ("start = 2, end = 100", [4]),
        "start_before": ("start = -100, end = 1", [2]),
        "crossed": ("start = 3, end = 1", []),
    }
    for name, (attributes, answer) in slices.items():
        body, out = f"y = Shape <{attributes}> (x)", {"y": i64(answer, len(answer))}
        yield expect(f"shape_{name}", body, {"x": ramp(2, 3, 4)}, out, fold=True)
    yield expect(
        "branch_initializer",
        """s = Shape <start = 1, end = 2> (x)
           flat = Squeeze (s)
           go = Equal (flat, one)
           y = If (go) <
               then_branch = drop () => (float[N, M] a) <int64[1] axes = {1}> { a = Squeeze (x, axes) },
               else_branch = keep () => (float[N, L, M] b) { b = Identity (x) }
           >""",
        {"x": ramp(2, 1, 2)},
        {"y": ramp(2, 2)},
        {"one": i64(1)},
        live=False,
    )
    w, bias, a = f32([[1, 2], [3, 4]]), f32([10, 20]), f32([[1, -1], [2, 0.5]])
    yield expect(
        "shared_initializer",
        "wt = Transpose (w)\n p = MatMul (x, wt)\n q = Gemm (x, w, bias)\n y = Add (p, q)",
        {"x": a},
        {"y": a @ w.T + (a @ w + bias)},
        {"w": w, "bias": bias},
    )
    yield expect(
        "inner_value_is_output",
        "p = MatMul (x, w)\n s = Add (p, bias)\n y = Relu (s)",
        {"x": a},
        {"y": np.maximum(a @ w + bias, 0), "s": a @ w + bias, "p": a @ w},
        {"w": w, "bias": bias},
    )


# ------------------------------------------------------------------------------------------ tracing
ONE_TWO_THREE = f32([1, 2, 3])


def trace(bench, function, x=ONE_TWO_THREE):
    """Export a plain Python function, its first dimension free as "n"."""
    return bench.export(function, {"x": x}, dynamic={"x": {0: "n"}})


def assert_gives(bench, path, x, *answers):
    """The exported file, by onnxruntime and by burnx, gives these outputs."""
    loaded = bench.burnx.load(str(path)).run({"x": x})
    for outputs in (bench.rerun(path, {"x": x}), list(loaded.values())):
        assert len(outputs) == len(answers), f"{len(outputs)} outputs, not {len(answers)}"
        for output, answer in zip(outputs, answers):
            same = np.shape(output) == np.shape(answer) and np.allclose(output, answer)
            assert same, f"expected {answer.tolist()}, got {np.asarray(output).tolist()}"


def assert_points_at(error, function):
    """The message names the file and a line of ``function``."""
    lines, first = inspect.getsourcelines(function)
    places = [f"{Path(__file__).name}:{first + offset}" for offset in range(len(lines))]
    named = str(error).replace('", line ', ":").replace(", line ", ":")
    assert any(place in named for place in places), (
        f"the message names no line of the function: {error}"
    )


def right_or_refused(function, x, *answers):
    """Tracing ``function`` either gives a file that is right on ``x``, or an error that points at the line."""

    def check(bench):
        try:
            path = trace(bench, function)
        except Exception as error:
            assert_points_at(error, function)
        else:
            assert_gives(bench, path, x, *answers)

    return check


def double_or_negate(x):
    return x * 2 if x.sum() > 0 else -x


def count_up(x):
    for _ in range(int(x[0])):
        x = x + 1
    return x


def as_column(x):
    return x.reshape(x.shape[0] // 1, 1)


def unchanged(x):
    return x


def same_twice(x):
    y = x * 2
    return y, y


def write_first(x):
    x[0] = 5.0
    return x * 2


@book.case("transformers#1689, dlrm#124, torch#119180, torch#148629, torch#75597")
def bc64_tracing():
    """Tracing keeps decisions, dimensions and randomness open, or says by file and line that it cannot."""
    negative, five = f32([-1, -2, -3, -4]), ramp(5)
    routes = {"routes": ("roundtrip",)}
    yield prove(
        "branch_on_value", right_or_refused(double_or_negate, negative, -negative), **routes
    )
    yield prove("loop_on_value", right_or_refused(count_up, f32([3, 0]), f32([6, 3])), **routes)
    yield prove(
        "write_in_place", right_or_refused(write_first, ONE_TWO_THREE, f32([10, 4, 6])), **routes
    )

    def shape_stays_free(bench):
        path = trace(bench, as_column)
        assert_gives(bench, path, five, five[:, None])
        dims = onnx.load(str(path)).graph.input[0].type.tensor_type.shape.dim
        assert dims[0].dim_param == "n", (
            f"the free dimension is called {dims[0].dim_param or dims[0].dim_value}"
        )

    def passes_through(bench):
        path = trace(bench, unchanged)
        assert_gives(bench, path, five, five)
        names = [value.name for value in onnx.load(str(path)).graph.input]
        assert names == ["x"], f"the input is called {names}"

    def ones_stay_small(bench):
        million = np.zeros(10**6, np.float32)
        body = "s = Shape (x)\n ones = ConstantOfShape <value: tensor = float[1] {1.0}> (s)\n y = Add (x, ones)"
        model = build(body, {"x": million}, {"y": million}, dims={"x": ["n"]})
        network = bench.network(bench.generate(bench.save(model)))
        path = bench.export(network, {"x": million}, dynamic={"x": {0: "n"}})
        size = sum(file.stat().st_size for file in bench.folder.glob("exported*"))
        assert size < 100_000, f"the exported file has {size} bytes"
        assert_gives(bench, path, five, five + 1)

    def random_stays_random(bench):
        x = np.zeros(64, np.float32)
        model = build(
            "r = RandomUniform <shape = [64], low = 2.0, high = 3.0> ()\n y = Add (x, r)",
            {"x": x},
            {"y": x},
        )
        try:
            network = bench.network(bench.generate(bench.save(model)))
            first, second = (network(x).numpy() for _ in range(2))
            path = bench.export(network, {"x": x})
            exported = bench.rerun(path, {"x": x})[0]
        except Exception as error:
            return assert_clear(error, {"RandomUniform", "randomuniform_0", "random_uniform"})
        for values in (first, second, exported):
            assert 2 <= values.min() and values.max() <= 3, (
                f"values from {values.min()} to {values.max()}"
            )
        assert not np.array_equal(first, second), "two calls gave the same random numbers"
        kinds = [node.op_type for node in onnx.load(str(path)).graph.node]
        assert any(kind.startswith("Random") for kind in kinds), (
            f"the exported file holds random numbers: {kinds}"
        )

    yield prove("shape_stays_free", shape_stays_free, **routes)
    yield prove("passes_through", passes_through, **routes)
    yield prove("output_twice", right_or_refused(same_twice, five, five * 2, five * 2), **routes)
    yield prove("ones_stay_small", ones_stay_small, **routes)
    yield prove("random_stays_random", random_stays_random, **routes)
