"""Results as tables: for a terminal, and for the README."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

OTHERS = ("onnxruntime", "openvino", "torch")
SHORT = {"onnxruntime": "ort", "openvino": "ov", "torch": "torch"}
TITLES = {"onnxruntime": "onnxruntime", "openvino": "OpenVINO", "torch": "PyTorch"}
Result = Mapping[str, Any]
LARGE_BYTES = 20_000_000  # of weights: from here on peak memory is compared
COLD_MS = 5000


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of no values."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def figure(model: Result, engine: str, key: str = "median_ms") -> float | None:
    """A figure of an engine; None if the engine was not measured."""
    found = model["engines"].get(engine)
    return None if found is None else float(found[key])


def ratio(model: Result, other: str, own: str = "burnx", key: str = "median_ms") -> float | None:
    """How many times as long the other takes."""
    theirs, ours = figure(model, other, key), figure(model, own, key)
    return theirs / ours if theirs is not None and ours else None


def best_ratio(model: Result, key: str = "median_ms") -> float | None:
    """How many times as long the faster of onnxruntime and OpenVINO takes."""
    found = [value for other in OTHERS[:2] if (value := ratio(model, other, key=key)) is not None]
    return min(found) if found else None


def start_ms(model: Result, engine: str, kind: str = "") -> float | None:
    """Opening the model and the first call; ``kind`` is "_cold" for an empty kernel cache."""
    load, first = (figure(model, engine, f"{part}{kind}_ms") for part in ("load", "first"))
    return None if load is None or first is None else load + first


def bound_by(model: Result, peaks: tuple[float, float]) -> tuple[str, float]:
    """What limits a model, and the seconds that takes at the machine's peak."""
    flops, bandwidth = peaks
    compute, memory = model["flops"] / flops, model["weight_bytes"] / bandwidth
    return ("compute", compute) if compute >= memory else ("bandwidth", memory)


def peak_fraction(model: Result, engine: str, peaks: tuple[float, float]) -> float | None:
    """How near to the machine's peak an engine is; above 1 is possible for int8 and Winograd."""
    median = figure(model, engine)
    return None if not median else bound_by(model, peaks)[1] / (median / 1e3)


def summarise(models: Mapping[str, Result]) -> dict[str, Any]:
    """Geometric means of the ratios, and the names of models that miss what is wanted."""
    summary: dict[str, Any] = {**_means(models.values(), "median_ms")}
    summary["by_minima"] = _means(models.values(), "min_ms")
    for key, (_, misses) in MISSED.items():
        summary[key] = [name for name, row in models.items() if misses(row)]
    return summary


def _takes_more(model: Result, key: str = "median_ms") -> bool:
    return (ratio(model, "onnxruntime", key=key) or 1.0) < 1.0


def _starts_later(model: Result) -> bool:
    ours, theirs = start_ms(model, "burnx"), start_ms(model, "onnxruntime")
    return ours is not None and theirs is not None and ours > theirs


# what a model may miss: how to say it, and whether it does
MISSED: dict[str, tuple[str, Callable[[Result], bool]]] = {
    "slower_than_onnxruntime": ("slower than onnxruntime", _takes_more),
    "more_memory_than_onnxruntime": (
        f"over {LARGE_BYTES // 10**6} MB of weights, and more memory than onnxruntime",
        lambda model: model["weight_bytes"] > LARGE_BYTES and _takes_more(model, "peak_bytes"),
    ),
    "later_start_than_onnxruntime": ("later start than onnxruntime, kernels kept", _starts_later),
    "long_cold_start": (
        f"start with an empty cache over {COLD_MS // 1000} s",
        lambda model: (start_ms(model, "burnx", "_cold") or 0.0) > COLD_MS,
    ),
    "differing": (
        "outputs differ from onnxruntime's",
        lambda model: not agreed(model["differs"].get("burnx")),
    ),
}


def _means(rows: Iterable[Result], key: str) -> dict[str, float | None]:
    """Geometric means of all ratios by medians or minima; None where no model has both engines."""
    rows = list(rows)
    means = {
        f"ratio_{other}": geometric_mean(v for row in rows if (v := ratio(row, other, key=key)))
        for other in OTHERS
    }
    means["ratio_best"] = geometric_mean(v for row in rows if (v := best_ratio(row, key)))
    means["openvino_against_onnxruntime"] = geometric_mean(
        v for row in rows if (v := ratio(row, "onnxruntime", "openvino", key))
    )
    return means


def agreed(difference: Mapping[str, Any] | None) -> bool:
    """Whether an engine gave what onnxruntime did, or is off by no more than that is from itself."""
    return difference is None or bool(difference["within"])


# ------------------------------------------------------------------------------------------- for a terminal
def text_table(models: Mapping[str, Result], peaks: tuple[float, float]) -> str:
    """One line a model: median and minimum of each engine, ratios, starts, memory, part of the peak."""
    shown = [
        name
        for name in ("burnx", *OTHERS)
        if any(name in row["engines"] for row in models.values())
    ]
    headings = ["model", *(f"{SHORT.get(name, name)} ms (min)" for name in shown)]
    headings += ["ort/burnx", "ov/burnx", "ort/ov", "start cold", "warm", "ort", "ov"]
    headings += [f"{SHORT.get(name, name)} MB" for name in shown] + ["bound", "of peak"]
    rows = [headings]
    for name, model in models.items():
        who = "burnx" if "burnx" in shown else shown[0] if shown else "burnx"
        rows.append(
            [
                name,
                *(_times(model, engine) for engine in shown),
                *(_number(ratio(model, other), 2) for other in OTHERS[:2]),
                _number(ratio(model, "onnxruntime", own="openvino"), 2),
                _number(start_ms(model, "burnx", "_cold"), 0),
                *(_number(start_ms(model, each), 0) for each in ("burnx", *OTHERS[:2])),
                *(_megabytes(model, engine) for engine in shown),
                bound_by(model, peaks)[0],
                _percent(peak_fraction(model, who, peaks)),
            ]
        )
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as columns: the first one left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        for row in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def summary_lines(models: Mapping[str, Result]) -> list[str]:
    """The summary as sentences, and what went wrong with which model."""
    summary = summarise(models)
    words = {
        "ratio_onnxruntime": "onnxruntime / burnx",
        "ratio_openvino": "OpenVINO / burnx",
        "ratio_torch": "PyTorch / burnx",
        "ratio_best": "the faster of onnxruntime and OpenVINO / burnx",
        "openvino_against_onnxruntime": "onnxruntime / OpenVINO",
    }
    lines = [
        f"geometric mean  {text}: {summary[key]:.3f} (by minima {summary['by_minima'][key]:.3f})"
        for key, text in words.items()
        if summary[key] is not None
    ]
    if any("burnx" in row["engines"] for row in models.values()):
        lines += [
            f"{text}: {', '.join(summary[key]) or 'none'}" for key, (text, _) in MISSED.items()
        ]
    for name, model in models.items():
        lines += [f"{name}: {engine} failed: {why}" for engine, why in model["failures"].items()]
        for engine, found in model["differs"].items():
            mark = "within onnxruntime's own spread" if found["within"] else "DIFFERS"
            lines.append(f"{name}: {engine} {mark}: {found['reason']}")
    return lines


# ------------------------------------------------------------------------------------------ for the README
def readme_table(results: Result) -> str:
    """The table of the README, with the machine and the means in sentences around it."""
    models, machine = results["models"], results["machine"]
    peaks = tuple(results["best_peaks"])
    with_torch = any("torch" in row["engines"] for row in models.values())
    others = OTHERS if with_torch else OTHERS[:2]
    headings = ["ms a call", "burnx", *(TITLES[name] for name in others)]
    headings += ["onnxruntime / burnx", "start: empty cache", "kept kernels", "onnxruntime"]
    headings += ["peak MB: burnx", "onnxruntime", "of the machine's peak"]
    lines = [_row(headings), _row(["---", *["--:"] * (len(headings) - 1)])]
    for name, model in models.items():
        cells = [
            name + ("" if agreed(model["differs"].get("burnx")) else " (differs)"),
            *(_number(figure(model, each), 2) for each in ("burnx", *others)),
            _number(ratio(model, "onnxruntime"), 2),
            _number(start_ms(model, "burnx", "_cold"), 0),
            *(_number(start_ms(model, each), 0) for each in ("burnx", "onnxruntime")),
            *(_megabytes(model, each) for each in ("burnx", "onnxruntime")),
            f"{_percent(peak_fraction(model, 'burnx', peaks))} ({bound_by(model, peaks)[0]})",
        ]
        lines.append(_row(cells))
    return "\n".join([*lines, "", *_readme_notes(results, summarise(models), machine)])


def _readme_notes(results: Result, summary: Result, machine: Result) -> list[str]:
    means = ", ".join(
        f"{summary[key]:.2f} against {name}"
        for key, name in (
            ("ratio_onnxruntime", "onnxruntime"),
            ("ratio_openvino", "OpenVINO"),
            ("ratio_best", "the faster of the two"),
        )
        if summary[key] is not None
    )
    versions = ", ".join(
        f"{name} {version}"
        for name, version in machine["versions"].items()
        if name in ("burnx", "onnxruntime", "openvino", "torch")
    )
    slower = ", ".join(summary["slower_than_onnxruntime"]) or "none"
    flops, bandwidth = results["best_peaks"]
    cpu = f"{machine['cpu']} ({', '.join(machine['features'])}), {results['threads']} threads"
    peak = f"{flops / 1e9:.0f} GFLOP/s and {bandwidth / 1e9:.0f} GB/s"
    notes = [
        f"Times as fast, geometric mean: {means}. Slower than onnxruntime: {slower}.",
        f"{cpu}, measured peak {peak}; {versions}; {results['date']}.",
    ]
    overhead = results.get("overhead", {})
    if "burnx" in overhead:
        each = ", ".join(
            f"{TITLES.get(n, n)} {v['median_ms'] * 1e3:.1f}" for n, v in overhead.items()
        )
        notes.append(f"A call that adds four numbers, in µs: {each}.")
    return notes


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _times(model: Result, engine: str) -> str:
    median, least = figure(model, engine), figure(model, engine, "min_ms")
    return "-" if median is None or least is None else f"{_digits(median)} ({_digits(least)})"


def _digits(value: float) -> str:
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def _megabytes(model: Result, engine: str) -> str:
    found = figure(model, engine, "peak_bytes")
    return "-" if found is None else f"{found / 1e6:.0f}"
