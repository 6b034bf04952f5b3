"""burnx bench: the time of a model, alone or against other engines."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from burnx.cli.bench_engines import ENGINES, Job, check_installed, torch_file
from burnx.cli.bench_plot import plot_times
from burnx.cli.bench_turns import Plan, Timing, time_engines
from burnx.cli.console import Console, as_json, json_option, table
from burnx.cli.options import ModelRequest, model_options
from burnx.cli.rooms import inputs_for, load_model, load_options
from burnx.cli.trying import try_inputs
from burnx.errors import UsageError

_OTHERS = tuple(name for name in ENGINES if name != "burnx")


@click.command("bench")
@model_options()
@click.option("--against", type=click.Choice(_OTHERS), multiple=True, help="Time this one too.")
@click.option("--rounds", type=click.IntRange(min=1), default=7, help="Turns of each engine (7).")
@click.option("--plot", metavar="FILE.svg", help="Draw the times.")
@click.option("--profile", is_flag=True, help="Show what each kernel takes.")
@json_option
@click.pass_obj
def bench_command(
    console: Console,
    /,
    request: ModelRequest,
    against: Sequence[str],
    profile: bool,
    **options: Any,
) -> None:
    """Time MODEL; each engine runs in a process of its own, in turn with the others."""
    against = list(dict.fromkeys(against))
    _check(request, against, options["plot"])
    model = load_model(request)
    inputs = try_inputs(partial(inputs_for, model, request), model.run, console)
    timings = _time(console, request, against, inputs, options["rounds"])
    result = results(timings)
    console.say(_figures(timings))
    for name, ratio in result.get("ratios", {}).items():
        console.say(f"burnx is {ratio:.3g} times as fast as {name}")
    if options["plot"] is not None:
        times = {name: timing.times_ms for name, timing in timings.items()}
        svg = plot_times(f"{Path(request.model).name}, ms a call", times)
        Path(options["plot"]).write_text(svg, encoding="utf-8")
        console.notice(f"wrote {options['plot']}")
    if profile:
        result |= _profile(console, request, model, inputs, options["rounds"])
        kernels_ms = sum(row["elapsed_ns"] for row in result["profile"]) / 1e6
        call_ms = timings["burnx"].median_ms
        console.say(f"all of these: {kernels_ms:.3f} ms, of {call_ms:.3f} ms that a call takes")
    console.result(result)


def results(timings: Mapping[str, Timing]) -> dict[str, Any]:
    """The figures of every engine, and how much longer the others take than burnx."""
    own = timings["burnx"].median_ms
    ratios = {n: t.median_ms / own for n, t in timings.items() if n != "burnx" and own > 0}
    found: dict[str, Any] = {name: timing.as_json() for name, timing in timings.items()}
    if ratios:
        found |= {"ratio": next(iter(ratios.values())), "ratios": ratios}
    return found


def thread_count(request: ModelRequest) -> int:
    """The threads that every engine gets.

    Raises: UsageError if BURNX_THREADS is not a whole number from 1 on.
    """
    from burnx.runtime.devices.cpu.processors import count_threads

    return count_threads(request.threads)


def _check(request: ModelRequest, against: Sequence[str], plot: str | None) -> None:
    if plot is not None and not plot.endswith(".svg"):
        raise UsageError(f"--plot is a file called .svg; found {plot!r}")
    for name in against:
        check_installed(name)
    if "torch" in against:
        torch_file(request.model)


def _time(
    console: Console,
    request: ModelRequest,
    against: Sequence[str],
    inputs: dict[str, Any],
    rounds: int,
) -> dict[str, Timing]:
    from burnx.cli.verifying import as_onnx

    own = {key: value for key, value in load_options(request).items() if key != "threads"}
    own |= {"device": request.device}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="burnx-"))
        pickled = Path(folder) / "inputs"
        pickled.write_bytes(pickle.dumps(inputs))
        models = {"burnx": request.model, "torch": request.model}
        if not models.keys() >= set(against):
            onnx = stack.enter_context(as_onnx(request, inputs, console))
            models = {**dict.fromkeys(against, onnx), **models}
        threads = thread_count(request)
        jobs = [
            Job(name, models[name], str(pickled), threads, own if name == "burnx" else {})
            for name in ("burnx", *against)
        ]
        progress = stack.enter_context(console.progress("timing"))
        return time_engines(jobs, Plan(rounds), progress)


def _figures(timings: Mapping[str, Timing]) -> str:
    rows = [
        (
            name,
            *(
                f"{value:.3f}"
                for value in (t.median_ms, min(t.times_ms), t.load_ms, t.first_ms, t.first_cold_ms)
            ),
            f"{t.peak_bytes / 1e6:.1f}",
        )
        for name, t in timings.items()
    ]
    return table(
        ("engine", "median ms", "min ms", "load ms", "first ms", "first cold ms", "peak MB"), rows
    )


def _profile(
    console: Console, request: ModelRequest, model: Any, inputs: Mapping[str, Any], runs: int
) -> dict[str, Any]:
    """``profile``: what each kernel or instruction took, longest first, and how near it came to ``peak``, the device's best."""
    from burnx.runtime.device import find_roofline

    rows = model.profile(inputs, runs)
    roofline = find_roofline(model.device, load_options(request))
    fractions = [
        roofline.fraction(row.elapsed_ns, row.bytes, row.flops, row.dtype) if roofline else 0.0
        for row in rows
    ]
    total = sum(row.elapsed_ns for row in rows) or 1
    shown = [
        (
            row.place or "-",
            row.what,
            row.calls,
            f"{row.elapsed_ns / 1e6:.3f}",
            f"{100 * row.elapsed_ns / total:.1f}",
            f"{row.bytes / 1e6:.3f}",
            f"{row.flops / 1e6:.3f}",
            f"{100 * fraction:.0f}" if fraction else "-",
        )
        for row, fraction in zip(rows, fractions, strict=True)
    ]
    console.say(table(("place", "kind", "calls", "ms", "%", "MB", "MFLOP", "% of peak"), shown))
    if roofline is not None:
        console.say(
            f"peak: {roofline.bytes_per_s / 1e9:.3g} GB/s copied, {roofline.flops_per_s / 1e9:.4g} GFLOP/s"
            + "".join(f", {n} {v / 1e9:.4g}" for n, v in roofline.matrices.items())
        )
        if any(fraction > 1 for fraction in fractions):
            console.say(
                "above 100 %: what is read lies in a cache, or less is worked out than counted"
            )
    listed = [
        {**as_json(row), "instruction": row.label, "fraction_of_peak": fraction or None}
        for row, fraction in zip(rows, fractions, strict=True)
    ]
    return {"profile": listed, "peak": None if roofline is None else as_json(roofline)}
