"""One model run fused, unfused and on the reference: all three agree.

How near numbers have to be is said in ``burnx.agreement.tolerance``, by dtype, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import burnx
from burnx.agreement.tolerance import close
from burnx.capture.loaded import LoadedModel
from burnx.conformance.backend_tests import BackendTest, input_names
from burnx.errors import BurnxError, UnsupportedError
from burnx.runtime.device import find_device

SIDES: dict[str, dict[str, Any]] = {
    "fused": {"fuse": True, "threads": 2},
    "unfused": {"fuse": False, "threads": 2},
    "alone": {"fuse": True, "threads": 1},
}


def compare_output(output: str, expected: Any, found: Any) -> str:
    """How an output differs; nothing if it does not."""
    difference = close(expected, found)
    return "" if difference is None else str(difference)


Compare = Callable[[str, Any, Any], str]


def disagreements(
    source: Any, inputs: Mapping[str, Any], name: str, compare: Compare = compare_output
) -> Iterator[str]:
    """How results on the cpu differ from the reference's; an error is a result, of its kind.

    A model that burnx does not know has no results to compare.
    """
    try:
        oracle = burnx.load(source, device="reference")
    except UnsupportedError:
        return
    expected = outcome(oracle, inputs)
    for side, options in SIDES.items():
        found = outcome(LoadedModel(oracle.graph, find_device("cpu"), options), inputs)
        if isinstance(expected, BurnxError) or isinstance(found, BurnxError):
            if type(found) is not type(expected):
                yield f"{name} {side}: {_text(expected)} on the reference, found {_text(found)}"
            continue
        for output, right in expected.items():
            difference = compare(output, right, found[output])
            if difference:
                yield f"{name} {side}: output {output!r}: {difference}"


def outcome(model: Any, inputs: Mapping[str, Any]) -> Any:
    """The outputs, or the error."""
    try:
        return model.run(inputs)
    except BurnxError as error:
        return error


def _text(result: Any) -> str:
    return f"{type(result).__name__}: {result}" if isinstance(result, BurnxError) else "values"


def disagreements_of_test(test: BackendTest) -> Iterator[str]:
    """``disagreements`` for all data of a backend test."""
    model = test.load_model()
    for data in test.load_data(model):
        yield from disagreements(
            model, dict(zip(input_names(model), data.inputs, strict=True)), test.name
        )
