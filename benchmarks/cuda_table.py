"""The README's table of ``cuda_torch.py``'s results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
HEAD = (
    "ms a call",
    "batch",
    "burnx",
    "PyTorch eager",
    "torch.compile",
    "eager / burnx",
    "compile / burnx",
    "first call: burnx",
    "kept kernels",
    "torch.compile",
)
ENGINES = ("burnx", "eager", "compile")


def readme_part(results: Mapping[str, Any]) -> str:
    """The table, and below it what it was measured on.

    A model whose outputs are further from PyTorch's in float64 than its tolerance is marked as such.
    """
    rows: Sequence[Row] = results["rows"]
    models = [row for row in rows if row["kind"] == "model"]
    lines = ["| " + " | ".join(HEAD) + " |", "|" + " --- |" + " --: |" * (len(HEAD) - 1)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in models]
    note = [results["note"]] if "note" in results else []
    return "\n".join([*lines, "", _machine(results, rows), *note])


def _cells(row: Row) -> list[str]:
    agrees = row.get("agrees", {}).get("burnx")
    mark = "" if agrees else " (failed)" if agrees is None else " (differs)"
    medians = [row.get(engine, {}).get("median_ms") for engine in ENGINES]
    own = medians[0]
    ratios = [f"{each / own:.2f}" if each and own else "-" for each in medians[1:]]
    starts = [row.get(f"{key}_ms") for key in ("burnx_cold", "burnx_warm", "compile_first")]
    return [
        f"{row['model']} {_precision(row)}{mark}",
        str(row["batch"]),
        *("-" if each is None else f"{each:.2f}" for each in medians),
        *ratios,
        *("-" if each is None else f"{each:,.0f}" for each in starts),
    ]


def _precision(row: Row) -> str:
    both = row.get("tf32") and not _is_one_sided(row)
    return "fp32 in TF32" if both else str(row["dtype"])


def _is_one_sided(row: Row) -> bool:
    """Whether PyTorch alone used TF32: an older row, in which float16 is said to allow it, too."""
    return bool(row.get("tf32")) and bool(row.get("one_sided", True))


def _computed(rows: Sequence[Row]) -> str:
    if any(_is_one_sided(row) for row in rows):
        return (
            "PyTorch computes float32 convolutions in TF32, as it does by default; burnx computes in float32 "
            "(products on matrix units in three parts)."
        )
    tf32 = " and where a row says so in TF32" if any(row.get("tf32") for row in rows) else ""
    return (
        f"Both compute float32 without TF32{tf32}: PyTorch, which uses it for convolutions by default, was told not to, "
        "and burnx takes products on matrix units in three parts."
    )


def _machine(results: Mapping[str, Any], rows: Sequence[Row]) -> str:
    machine = results["machine"]
    device = next(each for each in machine["devices"] if each.startswith("cuda"))
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    launches = [row["per_kernel_us"] for row in rows if "per_kernel_us" in row]
    replayed = (
        f" A replayed kernel that does nothing takes {launches[0]:.1f} µs." if launches else ""
    )
    return f"{device.partition(': ')[2]}; burnx {machine['burnx']}, {versions}. {_computed(rows)}{replayed}"
