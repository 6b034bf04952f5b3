"""Every operator's signature is the schema that onnx has of it: inputs, attributes, defaults, versions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from burnx.ops import table
from burnx.ops.operator import REQUIRED, Operator

Schema = onnx.defs.OpSchema
OPTIONAL, VARIADIC = (
    Schema.FormalParameterOption.Optional,
    Schema.FormalParameterOption.Variadic,
)


def history() -> dict[tuple[str, str], list[Any]]:
    """Every schema by domain and name, oldest first."""
    found: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        domain = "" if schema.domain == "ai.onnx" else schema.domain
        found.setdefault((domain, schema.name), []).append(schema)
    for schemas in found.values():
        schemas.sort(key=lambda schema: schema.since_version)
    return found


HISTORY = history()
ENTRIES = sorted(
    (entry for key, entry in table().items() if key in HISTORY), key=lambda each: each.qualified
)


def newest(entry: Operator) -> Any:
    current = [each for each in HISTORY[entry.domain, entry.op_type] if not each.deprecated]
    return current[-1]


def default_of(attribute: Any) -> Any:
    """What an attribute is when it is left out, as the signature writes it."""
    if attribute.required:
        return REQUIRED
    if not attribute.default_value.type:
        return None
    value = onnx.helper.get_attribute_value(attribute.default_value)
    return plain(value)


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value).tolist()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def is_same(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-6)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(is_same, found, wanted))
    return type(found) is type(wanted) and found == wanted


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.qualified)
class TestSignature:
    def test_inputs(self, entry: Operator) -> None:
        wanted = [
            (given.name.lower(), given.option == OPTIONAL, given.option == VARIADIC)
            for given in newest(entry).inputs
        ]
        found = [(each.name.lower(), each.optional, each.variadic) for each in entry.inputs]
        assert found == wanted

    def test_attributes_and_defaults(self, entry: Operator) -> None:
        wanted = {name: default_of(each) for name, each in newest(entry).attributes.items()}
        assert entry.attributes.keys() == wanted.keys()
        differ = {
            name: (entry.attributes[name], default)
            for name, default in wanted.items()
            if not is_same(plain(entry.attributes[name]), default)
        }
        assert differ == {}

    def test_outputs(self, entry: Operator) -> None:
        outputs = newest(entry).outputs
        assert len(entry.outputs) == len(outputs)
        assert entry.is_variadic == (bool(outputs) and outputs[-1].option == VARIADIC)

    def test_versions(self, entry: Operator) -> None:
        schemas = HISTORY[entry.domain, entry.op_type]
        assert entry.since == tuple(each.since_version for each in schemas)


def test_every_operator_of_the_standard_is_there() -> None:
    assert set(HISTORY) <= set(table())
