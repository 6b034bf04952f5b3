"""Which cases there are: every version of every operator that has a recipe, with every type of every type variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from burnx.conformance.cases import (
    recipes_contrib,
    recipes_control,
    recipes_elementwise,
    recipes_layers,
    recipes_ml,
    recipes_movement,
    recipes_reduction,
    recipes_values,
)
from burnx.conformance.cases.recipe import FromTypes, Recipe
from burnx.conformance.cases.schemas import Formal, Schema, all_schemas
from burnx.conformance.cases.type_text import element_name, short_name

Cell: TypeAlias = tuple[str, int, str, str]
"""(operator, version, type variable, type); a schema without type variables has one with two empty texts."""

_TABLES = (
    recipes_contrib,
    recipes_control,
    recipes_elementwise,
    recipes_layers,
    recipes_ml,
    recipes_movement,
    recipes_reduction,
    recipes_values,
)
_PREFERRED = ("tensor(float)", "tensor(int64)", "seq(tensor(float))", "tensor(uint8)")
_PREFIX = {"ai.onnx.ml": "ml_", "com.microsoft": "ms_", "ai.onnx.preview": "preview_"}


@dataclass(frozen=True, slots=True)
class Given:
    """An input of the node: its place in the schema, its name in the graph, its text in the recipe; an element type of its own."""

    formal: Formal
    name: str
    spec: str
    element: str = ""

    def type_in(self, types: Mapping[str, str]) -> str:
        """The type of the value when the variables stand for these types."""
        return (
            f"tensor({self.element})"
            if self.element
            else types.get(self.formal.type, self.formal.type)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One recipe on one schema with all types settled; ``varied`` is the variable it is there for."""

    name: str
    schema: Schema
    recipe: Recipe
    types: Mapping[str, str]
    varied: str

    @property
    def dtype(self) -> str:
        """The element dtype of the varied variable."""
        kind = self.types.get(self.varied, "")
        return short_name(f"tensor({element_name(kind)})") if kind else ""


@cache
def all_recipes() -> Mapping[str, tuple[Recipe, ...]]:
    """The recipes by operator."""
    found: dict[str, list[Recipe]] = {}
    for module in _TABLES:
        for recipe in module.RECIPES:
            found.setdefault(recipe.operator, []).append(recipe)
    return {operator: tuple(recipes) for operator, recipes in found.items()}


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case, by operator, version, recipe and type."""
    return tuple(
        case
        for schema in all_schemas()
        for recipe in all_recipes().get(schema.operator, ())
        if recipe.covers(schema.since)
        for case in _cases_of(schema, recipe)
    )


def all_cells() -> Iterator[Cell]:
    """Every operator, version, variable and type of the schemas."""
    for schema in all_schemas():
        if not schema.variables:
            yield schema.operator, schema.since, "", ""
        for variable, types in schema.variables.items():
            for kind in types:
                yield schema.operator, schema.since, variable, kind


def given_inputs(schema: Schema, recipe: Recipe) -> list[Given | None]:
    """The inputs of the node in order; None for an optional one that is left out."""
    placed: dict[int, tuple[Formal, str]] = {}
    for index, item in enumerate(filter(None, map(str.strip, recipe.inputs.split("|")))):
        name, spec = _split_item(item)
        place = _place_of(schema, name, index)
        if place is not None and spec != "-":
            placed[place] = (schema.inputs[min(place, len(schema.inputs) - 1)], spec)
    return [_given(place, placed) for place in range(max(placed, default=-1) + 1)]


def used_variables(schema: Schema, recipe: Recipe) -> list[str]:
    """The type variables that a case of the recipe can choose."""
    given = given_inputs(schema, recipe)
    used = {item.formal.type for item in given if item is not None and not item.element}
    if recipe.captured:
        used.add(recipe.captured[0])
    for name, value in recipe.attributes.items():
        if isinstance(value, FromTypes) and name in schema.attributes:
            used.update(value.variables)
    return [variable for variable in schema.variables if variable in used]


def _split_item(item: str) -> tuple[str, str]:
    name, colon, spec = item.partition(":")
    named = bool(colon) and name.replace("_", "").isalnum()
    return (name, spec.strip()) if named else ("", item)


def _place_of(schema: Schema, name: str, index: int) -> int | None:
    """Where an item goes; None if this version has no such input."""
    names = [formal.name for formal in schema.inputs]
    if name:
        return names.index(name) if name in names else None
    variadic = bool(schema.inputs) and schema.inputs[-1].variadic
    return index if index < len(names) or variadic else None


def _given(place: int, placed: Mapping[int, tuple[Formal, str]]) -> Given | None:
    if place not in placed:
        return None
    formal, text = placed[place]
    spec, _, element = text.partition(" @")
    name = f"{formal.name}_{place}" if formal.variadic else formal.name
    return Given(formal, name, spec.strip(), element.strip())


def _cases_of(schema: Schema, recipe: Recipe) -> Iterator[Case]:
    """A case for every type of every variable, each set of types once."""
    seen: set[tuple[tuple[str, str], ...]] = set()
    variables = used_variables(schema, recipe)
    wanted: Iterable[tuple[str, str]] = [
        (variable, kind)
        for variable in variables
        for kind in schema.variables[variable]
        if element_name(kind) in recipe.only.get(variable, (element_name(kind),))
    ]
    for variable, kind in wanted or [("", "")]:
        types = _settle_types(schema, recipe, variable, kind)
        key = tuple(sorted((name, types[name]) for name in variables))
        if key not in seen:
            seen.add(key)
            yield Case(_case_name(schema, recipe, variable, kind), schema, recipe, types, variable)


def _settle_types(schema: Schema, recipe: Recipe, variable: str, kind: str) -> dict[str, str]:
    types = {
        name: _default_type(recipe, name, allowed) for name, allowed in schema.variables.items()
    }
    if variable:
        types[variable] = kind
    for follower, leader in recipe.tied.items():
        element = element_name(types.get(leader, ""))
        fitting = [
            kind for kind in schema.variables.get(follower, ()) if element_name(kind) == element
        ]
        if follower != variable and fitting:
            types[follower] = fitting[0]
    return types


def _default_type(recipe: Recipe, variable: str, allowed: tuple[str, ...]) -> str:
    wanted = (recipe.types.get(variable, ""), *_PREFERRED)
    return next((kind for kind in wanted if kind in allowed), allowed[0])


def _case_name(schema: Schema, recipe: Recipe, variable: str, kind: str) -> str:
    prefix = _PREFIX.get(
        schema.domain, schema.domain.rpartition(".")[2] + "_" if schema.domain else ""
    )
    parts = [f"gen_{prefix}{schema.op_type}_v{schema.since}", recipe.name, variable]
    return "_".join(filter(None, [*parts, short_name(kind) if kind else ""]))
