"""What other engines gave on the backend tests of onnx, measured once, and how."""

from __future__ import annotations

from dataclasses import dataclass

RECIPE = (
    "onnx 1.23.2, its backend tests of the kinds node, simple, pytorch-operator, pytorch-converted and light: 2,033. "
    "Each is compared with its expected outputs at its own tolerance (rtol 1e-3, atol 1e-7 unless it says otherwise); one "
    "process for each batch, 20 s for each test, Python 3.11 on x86-64. A refusal, a crash and a timeout count as refused."
)
TESTS = 2_033
"""How many tests that is."""


@dataclass(frozen=True, slots=True)
class Peer:
    """An engine at a version, how many of how many tests it passed, and how the others ended."""

    name: str
    passed: int
    wrong: int | None
    refused: int | None
    tests: int = TESTS
    note: str = ""


PEERS = (
    Peer(
        "onnx 1.23.2 ReferenceEvaluator",
        2_015,
        13,
        5,
        note="NumPy, made for checking and not for speed",
    ),
    Peer("onnxruntime 1.32.0, CPU", 1_857, 22, 154),
    Peer("onnx2pytorch 0.6.0", 1_635, 50, 348),
    Peer("OpenVINO 2026.4.1, CPU", 1_632, 102, 299),
    Peer("tinygrad 0.14.0", 1_502, 41, 490),
    Peer("tract 0.23.9", 1_375, 35, 623, note="every input but the first given as a constant"),
    Peer(
        "TVM 0.27 relax, LLVM",
        1_081,
        140,
        812,
        note="every input but the first given as a constant",
    ),
    Peer(
        "onnx2torch 1.5.15, version gate lifted",
        707,
        68,
        1_258,
        note="as shipped: 414 pass, 31 wrong, 1,588 refused",
    ),
    Peer("jaxonnxruntime 0.3.0", 548, 2, 1_483),
    Peer(
        "emx-onnx-cgen 1.4.0", 147, None, None, 157, "a sample; onnxruntime passes 145 of the same"
    ),
    Peer(
        "burn-onnx, August 2026",
        830,
        96,
        587,
        1_615,
        "by its own roadmap, with the tests of onnx 1.19; 102 more were compiled and not compared",
    ),
)
