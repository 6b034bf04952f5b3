"""Random models of branches and loops in each other, as text of ONNX's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

V = "float[3]"


@dataclass(slots=True)
class Writer:
    """Writes nodes; names are never used twice."""

    rng: Random
    count: int = 0
    lines: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def node(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def nested(self) -> Writer:
        return Writer(self.rng, self.count)

    def keep(self, inner: Writer) -> list[str]:
        self.count = inner.count
        return inner.lines


def test_of(w: Writer, seen: list[str]) -> str:
    """A condition made of a value."""
    total = w.node(f"ReduceSum <keepdims = 0> ({w.rng.choice(seen)})")
    limit = w.node(f"Constant <value_float = {w.rng.choice(['-1.0', '0.5', '2.0'])}> ()")
    return w.node(f"{w.rng.choice(['Less', 'Greater'])} ({total}, {limit})")


def plain(w: Writer, seen: list[str], depth: int) -> list[str]:
    kind = w.rng.choice(["Add", "Sub", "Mul", "Tanh", "Neg", "Tanh"])
    args = [w.rng.choice(seen) for _ in range(2 if kind in ("Add", "Sub", "Mul") else 1)]
    result = w.node(f"{kind} ({', '.join(args)})")
    return [w.node(f"Tanh ({result})") if kind == "Mul" else result]


def branch(w: Writer, seen: list[str], depth: int) -> list[str]:
    test, count = test_of(w, seen), w.rng.choice([1, 1, 2])
    bodies = []
    for _ in range(2):
        inner = w.nested()
        made = block(inner, seen, depth - 1)
        results = [results_name(inner, w.rng.choice([*made, *seen])) for _ in range(count)]
        bodies.append(f"g () => ({typed(results)}) {{ {' '.join(w.keep(inner))} }}")
    names = [w.fresh() for _ in range(count)]
    w.lines.append(
        f"{', '.join(names)} = If ({test}) <then_branch = {bodies[0]}, else_branch = {bodies[1]}>"
    )
    return names


def results_name(w: Writer, value: str) -> str:
    """A result of a graph is made in it, once."""
    return w.node(f"Identity ({value})")


def typed(names: list[str]) -> str:
    return ", ".join(f"{V} {name}" for name in names)


def turn(
    w: Writer, seen: list[str], states: int, depth: int
) -> tuple[Writer, list[str], list[str]]:
    """The nodes of a loop's body, its states and what they become, then what it appends."""
    inner = w.nested()
    given = [inner.fresh() for _ in range(states)]
    made = block(inner, [*given, *given, *seen], depth - 1)
    count = states + w.rng.choice([0, 1, 1])
    pool = [*made, *made, *given, *seen]
    return inner, given, [results_name(inner, w.rng.choice(pool)) for _ in range(count)]


def loop(w: Writer, seen: list[str], depth: int) -> list[str]:
    states = w.rng.choice([1, 2, 3])
    starts = [w.rng.choice(seen) for _ in range(states)]
    inner, given, results = turn(w, seen, states, depth)
    i, c = inner.fresh(), inner.fresh()
    form = w.rng.choice(["for", "for", "break", "while", "number", "both"])
    if form in ("for", "break", "number") and w.rng.random() < 0.5:
        number = inner.node(f"Cast <to = 1> ({i})")
        results[0] = inner.node(f"Add ({results[0]}, {number})")
    going = inner.node(f"Identity ({c})") if form in ("for", "number") else ""
    if not going:
        going = test_of(inner, [results[0], *given])
    if form == "while":  # not for ever
        i2 = results[0] = inner.node(f"Add ({given[0]}, one)")
        total = inner.node(f"ReduceSum <keepdims = 0> ({i2})")
        limit = inner.node("Constant <value_float = 9.0> ()")
        going = inner.node(f"Less ({total}, {limit})")
    body_lines = w.keep(inner)
    trips = {"for": "n", "break": "n", "both": "n", "while": ""}.get(form)
    if trips is None:
        trips = w.node("Constant <value_int = 3> ()")
    first = test_of(w, seen) if form in ("while", "both") else "yes"
    head = f"int64 {i}, bool {c}, {typed(given)}"
    body = f"b ({head}) => (bool {going}, {typed(results)}) {{ {' '.join(body_lines)} }}"
    return outputs(
        w, f"Loop ({', '.join([trips, first, *starts])}) <body = {body}>", states, results
    )


def scan(w: Writer, seen: list[str], depth: int) -> list[str]:
    states, rows = w.rng.choice([1, 2]), w.rng.choice([1, 2])
    starts = [w.rng.choice(seen) for _ in range(states)]
    pieces = [w.node(f"Unsqueeze ({w.rng.choice(seen)}, axis)") for _ in range(3)]
    stacks = [w.node(f"Concat <axis = 0> ({', '.join(pieces[k:])})") for k in [0] * rows]
    inner, given, results = turn(w, seen, states + rows, depth)
    results = results[:states] + results[states + rows :]
    body_lines = w.keep(inner)
    body = f"b ({typed(given)}) => ({typed(results)}) {{ {' '.join(body_lines)} }}"
    back = w.rng.choice(["", f", scan_input_directions = {[w.rng.choice([0, 1]) for _ in stacks]}"])
    call = f"Scan ({', '.join([*starts, *stacks])}) <body = {body}, num_scan_inputs = {rows}{back}>"
    return outputs(w, call, states, results)


def outputs(w: Writer, call: str, states: int, results: list[str]) -> list[str]:
    """The last states, and the sum of what was appended."""
    names = [w.fresh() for _ in results]
    w.lines.append(f"{', '.join(names)} = {call}")
    sums = [w.node(f"ReduceSum <keepdims = 0> ({each}, axis)") for each in names[states:]]
    return [*names[:states], *sums]


def block(w: Writer, seen: list[str], depth: int) -> list[str]:
    """Some nodes, and what they make."""
    made: list[str] = []
    for _ in range(w.rng.randint(1, 2)):
        kinds = [plain, plain, branch, loop, scan] if depth > 0 else [plain]
        made += w.rng.choice(kinds)(w, [*seen, *made], depth)
    return made


def random_flow(seed: int) -> str:
    """The text of a model with inputs x, y: float[3] and n: int64."""
    w = Writer(Random(seed))
    w.node("Constant <value_int = 0> ()")
    made = block(w, ["x", "y"], 2)
    made += w.rng.choice([branch, loop, scan])(w, [*made, "y"], 2)
    results = [results_name(w, each) for each in made[-3:]]
    lines = " ".join(w.lines)
    return (
        '<ir_version: 9, opset_import: ["" : 18]>\n'
        f"agraph (float[3] x, float[3] y, int64 n) => ({typed(results)})\n"
        "<int64[1] axis = {0}, bool yes = {1}, float[3] one = {1.0, 1.0, 1.0}> {\n"
        f"{lines}\n}}"
    )
