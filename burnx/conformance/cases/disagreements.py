"""Where the reference evaluator and onnxruntime give different values: which one is right, and the sentence that says so.

A case that matches none of these and has two different answers is not compared, so that it is no pass.  ``follows``
is empty where neither gives what the standard says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Cases by a regular expression over their names, the engine that is followed, and why."""

    cases: str
    follows: str
    why: str


def find_disagreement(case_name: str) -> Disagreement | None:
    """The first entry for a case."""
    return next((item for item in DISAGREEMENTS if re.search(item.cases, case_name)), None)


_FIRST, _OTHER = "reference", "onnxruntime"
_STREAM = "The values come from a stream of random numbers, which the standard does not fix."

DISAGREEMENTS: tuple[Disagreement, ...] = (
    Disagreement(r"^gen_(Random(Normal|Uniform)(Like)?|Bernoulli|Multinomial)_", "", _STREAM),
    Disagreement(
        r"^gen_(Softmax|LogSoftmax|Hardmax)_v(1|11)_",
        _OTHER,
        "Softmax-11: 'input will be coerced into a 2-dimensional tensor with dimensions [a_0 * ... * a_{k-1}, a_k * ... * "
        "a_{n-1}]'; the reference evaluator takes the one axis, as version 13 does.",
    ),
    Disagreement(
        r"^gen_(RNN|GRU|LSTM)_v\d+_lengths_",
        _OTHER,
        "RNN-22, sequence_lens: 'Optional tensor specifying lengths of the sequences in a batch'; the reference evaluator "
        "ignores it.",
    ),
    Disagreement(
        r"^gen_MaxPool_v\d+_indices_",
        _OTHER,
        "MaxPool-22, Indices: 'the indices do not consider padding. So the values in indices are in [0, N x C x D1 x ... x "
        "Dn)'; the reference evaluator counts from the padding and gives negative ones.",
    ),
    Disagreement(
        r"^gen_LpNormalization_v\d+_first_",
        _OTHER,
        "LpNormalization-22: 'output = input / Lp_norm(input, axis)'; a norm is of magnitudes, the reference evaluator "
        "adds up signed values.",
    ),
    Disagreement(
        r"^gen_RoiAlign_v10_",
        _OTHER,
        "RoiAlign-16, coordinate_transformation_mode: \"Use the value 'output_half_pixel' to omit the pixel shift for the "
        'input (use this for a backward-compatible behavior)"; the reference evaluator shifts in version 10 too.',
    ),
    Disagreement(
        r"^gen_BatchNormalization_v9_",
        _OTHER,
        "BatchNormalization-9: 'Output case #2: Y (test mode)'; the reference evaluator takes one output for training.",
    ),
    Disagreement(
        r"^gen_Loop_v\d+_scan_",
        _OTHER,
        "Loop-25: 'Scan_output variables are used to implicitly concatenate values computed across all the iterations'; "
        "scalars of three trips are (3,), the reference evaluator gives (3, 1).",
    ),
    Disagreement(
        r"^gen_Cast(Like)?_v\d+_(signs_|quarters_)?T2_string$",
        _FIRST,
        "Cast-13: 'When casting from numeric tensors to string tensors, plain floating-point representation (such as "
        "\"314.15926\") would be used'; onnxruntime drops '.0', so that 2.0 looks like an integer.",
    ),
    Disagreement(
        r"^gen_Dropout_v(7|10)_mask_",
        _FIRST,
        "Dropout-12, which says what was left open: 'nothing will be dropped from the input data and if mask is requested "
        "as output it will contain all ones'; onnxruntime gives zeros.",
    ),
    Disagreement(
        r"^gen_Gather_v\d+_T_string$",
        _FIRST,
        "Gather-13: 'gather entries of the axis dimension of data indexed by indices'; onnxruntime leaves empty texts for "
        "entries that do not follow each other.",
    ),
    Disagreement(
        r"^gen_ml_DictVectorizer_",
        "",
        "DictVectorizer-1, Y: 'A 1-D tensor holding values from the input dictionary'; onnxruntime gives a row of shape "
        "(1, n).",
    ),
    Disagreement(
        r"^gen_ml_TreeEnsembleClassifier_",
        _FIRST,
        "TreeEnsembleClassifier-3, Y: 'N, Top class for each point'; onnxruntime gives 1, which is none of the class labels.",
    ),
    Disagreement(
        r"^gen_ml_TreeEnsembleRegressor_v\d+_votes_",
        _FIRST,
        "TreeEnsembleRegressor-3, target_weights: 'The weight for each target'; where a leaf has two of them for the one "
        "target, onnxruntime takes the first.",
    ),
    Disagreement(
        r"^gen_ml_TreeEnsemble_v\d+_logistic_",
        "",
        "TreeEnsemble-5, post_transform: 'Indicates the transform to apply to the score'; the reference evaluator applies "
        "none, onnxruntime gives less than 1/2 for a score of 0.",
    ),
    Disagreement(
        r"^gen_MaxPool_v\d+_same_",
        _FIRST,
        "MaxPool-22, auto_pad: 'pad the input so that `output_shape[i] = ceil(input_shape[i] / strides[i])`'; onnxruntime "
        "pads as if there were no dilations, and gives less.",
    ),
    Disagreement(
        r"^gen_(AveragePool|LpPool|ms_NhwcMaxPool)_v\d+_same_",
        "",
        "The same of other pools: onnxruntime pads as if there were no dilations, and the reference evaluator, whose "
        "output has the size, reads other places than those of its MaxPool.",
    ),
    Disagreement(
        r"^gen_ms_QLinearAveragePool_v\d+_ceil_",
        "",
        "AveragePool-22: with ceil_mode a window may end behind the padding, and what is there is no element; onnxruntime "
        "counts it in QLinearAveragePool, though not in AveragePool.",
    ),
    Disagreement(
        r"^gen_RNN_v\d+_nothing_",
        "",
        "RNN-22 does not say what the last state of a sequence without steps is: onnxruntime gives 0, burnx the state that "
        "it started with; the reference evaluator takes all steps.",
    ),
    Disagreement(
        r"^gen_ReduceLogSumExp_v\d+_T_u?int\d+$",
        "",
        "ReduceLogSumExp-18 does not say how a logarithm becomes an integer: onnxruntime adds a cut logarithm to the "
        "largest element, burnx cuts the sum, as the function body of version 28 does.",
    ),
    Disagreement(
        r"^gen_(Resize_v10|Upsample_v9)_linear_T_",
        _OTHER,
        "Resize-11 calls what came before it 'asymmetric': 'x_original = x_resized / scale'; onnx's version converter "
        "leaves its default, half_pixel.",
    ),
    Disagreement(
        r"^gen_Scan_v8_V_complex\d+$",
        "",
        "Scan-8: 'The operation supports batching, and the batch-axis is required to be 0'; onnx's version converter "
        "drops the batch.",
    ),
    Disagreement(
        r"^gen_Erf_v\d+_T_u?int\d+$",
        "",
        "Erf-13 does not say how a value becomes an integer: the reference evaluator rounds to float32 first, where erf(5) "
        "is 1; burnx cuts the value, which is less than 1.",
    ),
    Disagreement(
        r"^gen_GridSample_v\d+_T1_(u?int\d+|bool|string|complex\d+)$",
        "",
        "GridSample-22 does not say how an interpolated value becomes an integer: the reference evaluator cuts the weights, "
        "burnx the value.",
    ),
    Disagreement(
        r"^gen_(Resize|Upsample)_v\d+_T1?_complex\d+$",
        "",
        "Resize-19: the nearest pixel is moved as it is; the reference evaluator drops the imaginary part.",
    ),
    Disagreement(
        r"^gen_Resize_v\d+_(linear|cubic)_T1?_(u?int\d+|bool|string|complex\d+)$",
        "",
        "Resize-19 does not say how an interpolated value becomes an integer: onnxruntime cuts, the reference evaluator "
        "rounds; of strings and complex numbers it says nothing.",
    ),
)
