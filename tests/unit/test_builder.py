"""The builder: what it infers, what it defers to the run, and what it leaves out of a program."""

import gc

import numpy as np
import pytest

from burnx import waist
from burnx.builder import Builder, join_types, remove_dead
from burnx.dtype import float32, int64
from burnx.errors import ModelError
from burnx.graph import Graph, Node, Value
from burnx.ops import operators
from burnx.program import Program
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import symbol
from burnx.types import SequenceType, TensorType

N = symbol("n")


def build(function, *types):
    """The program of a Python function of tensors."""
    builder = Builder(operators())
    inputs = [builder.input(kind) for kind in types]
    with builder.ambient():
        results = function(*inputs)
    return builder.finish(results)


def run(program, *arrays):
    return Interpreter().run(remove_dead(program), [np.asarray(each) for each in arrays])


def names(program):
    return [each.primitive for each in program.instructions]


def floats(*shape):
    return TensorType(float32, shape)


def ints(*shape):
    return TensorType(int64, shape)


def one():
    return waist.constant(np.ones(1, np.float32))


class TestLoops:
    def test_a_carried_size_that_grows_becomes_a_size_of_the_run(self):
        def grow(x):
            trips = waist.constant(3, int64)

            def body(i, going, held):
                return [going, waist.concat([held, one()], 0)]

            return waist.repeat(trips, None, [x], body)

        program = build(grow, floats(2))
        (kind,) = (var.type for var in program.outputs)
        assert len(kind.shape) == 1 and not isinstance(kind.shape[0], int)
        assert run(program, np.zeros(2, np.float32))[0].shape == (5,)

    def test_growth_travels_along_a_chain_of_carried_values(self):
        def chain(*values):
            def body(i, going, *held):
                return [going, waist.concat([held[0], one()], 0), *held[:-1]]

            return waist.repeat(waist.constant(7, int64), None, list(values), body)

        program = build(chain, *[floats(1)] * 7)
        assert all(not isinstance(var.type.shape[0], int) for var in program.outputs)
        results = run(program, *[np.zeros(1, np.float32)] * 7)
        assert [each.shape[0] for each in results] == [8, 7, 6, 5, 4, 3, 2]

    def test_a_rank_that_changes_is_left_open(self):
        def swap(*values):
            def body(i, going, left, right):
                return [going, right, left]

            return waist.repeat(waist.constant(3, int64), None, list(values), body)

        program = build(swap, floats(2, 1), floats(2))
        assert all(var.type.shape is None for var in program.outputs)
        results = run(program, np.zeros((2, 1), np.float32), np.zeros(2, np.float32))
        assert [each.shape for each in results] == [(2,), (2, 1)]

    def test_items_have_the_length_of_a_count_that_only_itself_can_end(self):
        def count(x):
            trips = waist.reshape(waist.sizes(x.shape[0]), ())

            def body(i, going):
                return [going, waist.take(x, i, 0)]

            return waist.repeat(trips, None, [], body)

        program = build(count, floats(N, 3))
        assert program.outputs[0].type == floats(N, 3)

    def test_a_condition_of_the_body_leaves_the_length_of_items_open(self):
        def early(x):
            limit = waist.constant(2, int64)

            def body(i, going):
                return [waist.map("lt", i, limit), waist.take(x, i, 0)]

            return waist.repeat(waist.constant(5, int64), None, [], body)

        program = build(early, floats(5, 3))
        assert not isinstance(program.outputs[0].type.shape[0], int)
        assert run(program, np.zeros((5, 3), np.float32))[0].shape == (3, 3)

    def test_no_turn_gives_items_of_no_length_and_the_first_state(self):
        def never(x):
            def body(i, going, held):
                return [going, held, waist.take(x, i, 0)]

            return waist.repeat(waist.constant(-2, int64), None, [x], body)

        state, items = run(build(never, floats(N, 3)), np.ones((4, 3), np.float32))
        assert state.shape == (4, 3) and items.shape == (0, 3)

    def test_a_dtype_that_changes_is_an_error(self):
        def change(x):
            def body(i, going, held):
                return [going, waist.cast_to(held, int64)]

            return waist.repeat(waist.constant(1, int64), None, [x], body)

        with pytest.raises(ModelError, match="two turns of a loop"):
            build(change, floats(2))

    def test_a_value_is_captured_through_two_loops(self):
        def nested(x):
            def inner(i, going, held):
                return [going, waist.map("add", held, x)]

            def outer(i, going, held):
                return [going, *waist.repeat(waist.constant(2, int64), None, [held], inner)]

            return waist.repeat(waist.constant(3, int64), None, [x], outer)

        assert run(build(nested, floats(1)), np.ones(1, np.float32))[0].tolist() == [7.0]


class TestBranches:
    def test_a_known_condition_builds_one_branch_in_place(self):
        def choose(x):
            yes = waist.constant(True)
            return waist.branch(yes, lambda: [waist.map("neg", x)], lambda: [x])

        assert names(build(choose, floats(2))) == ["map"]

    def test_an_unknown_condition_keeps_what_both_branches_share(self):
        def choose(c, x):
            return waist.branch(c, lambda: [x], lambda: [waist.concat([x, x], 1)])

        program = build(choose, TensorType(np.dtype(bool), ()), floats(N, 2))
        shape = program.outputs[0].type.shape
        assert shape[0] == N and not isinstance(shape[1], int)
        x = np.ones((3, 2), np.float32)
        assert run(program, True, x)[0].shape == (3, 2)
        assert run(program, False, x)[0].shape == (3, 4)

    def test_an_operation_of_a_branch_that_is_not_taken_does_not_run(self):
        def choose(c, x, at):
            return waist.branch(c, lambda: [waist.take(x, at, 0)], lambda: [waist.map("neg", at)])

        kinds = TensorType(np.dtype(bool), ()), ints(2), ints()
        assert run(build(choose, *kinds), False, np.zeros(2, np.int64), 9)[0] == -9

    def test_branches_of_different_counts_are_an_error(self):
        with pytest.raises(ModelError, match="as many values"):
            build(
                lambda c, x: waist.branch(c, lambda: [x], lambda: [x, x]),
                TensorType(np.dtype(bool), ()),
                floats(2),
            )


def graph_of(operator, inputs, attributes=None, out=None):
    node = Node(operator, "", list(inputs), [Value(out or floats(N))], attributes or {}, operator)
    node.outputs[0].producer = node
    return node


def deferred(nodes, inputs, result):
    builder = Builder(operators())
    graph = Graph("g", list(inputs), [result], ["y"], nodes)
    tensors = [builder.input(value.type) for value in inputs]
    return builder.finish(builder.run_graph(graph, tensors))


def continuation(program):
    return program.instructions[-1].attributes["continuation"]


class TestDeferral:
    def squeeze(self, kind, axes=None):
        x, axes = Value(kind, "x"), axes or Value(ints(1), "axes")
        squeeze = graph_of("Squeeze", [x, axes], out=TensorType(float32, None))
        neg = graph_of("Neg", [squeeze.outputs[0]], out=TensorType(float32, None))
        return deferred([squeeze, neg], [x, axes], neg.outputs[0])

    def test_axes_of_the_run_defer_the_rest(self):
        program = self.squeeze(floats(1, 1, 3))
        assert names(program) == ["defer"]
        x = np.ones((1, 1, 3), np.float32)
        assert run(program, x, [0])[0].shape == (1, 3)
        assert run(program, x, [0])[0].tolist() == [[-1.0] * 3]

    def test_one_program_is_kept_for_each_value(self):
        program = self.squeeze(floats(1, 1, 3))
        x = np.ones((1, 1, 3), np.float32)
        for axes in ([0], [1], [0]):
            run(program, x, axes)
        assert len(continuation(program).programs) == 2

    def test_other_sizes_of_what_is_not_waited_for_share_a_program(self):
        program = self.squeeze(floats(1, N))
        for size in (2, 3, 4):
            assert run(program, np.ones((1, size), np.float32), [0])[0].shape == (size,)
        assert len(continuation(program).programs) == 1

    def test_a_value_of_unknown_rank_waits_for_its_shape(self):
        x = Value(TensorType(float32, None), "x")
        neg = graph_of("Neg", [x], out=TensorType(float32, None))
        program = deferred([neg], [x], neg.outputs[0])
        assert dict(continuation(program).wanted) == {x: "shape"}
        assert run(program, np.ones((2, 2), np.float32))[0].shape == (2, 2)

    def test_a_deferred_program_knows_which_sizes_are_equal(self):
        x, y, axes = Value(floats(1, N), "x"), Value(floats(N), "y"), Value(ints(1), "axes")
        squeeze = graph_of("Squeeze", [x, axes], out=TensorType(float32, None))
        add = graph_of("Add", [squeeze.outputs[0], y], out=TensorType(float32, None))
        program = deferred([squeeze, add], [x, y, axes], add.outputs[0])
        run(program, np.ones((1, 3), np.float32), np.ones(3, np.float32), [0])
        ((inner, _),) = continuation(program).programs.values()
        assert "broadcast" not in names(inner)

    def test_what_is_known_already_is_no_input_of_the_rest(self):
        x, axes = Value(floats(1, 3, 1), "x"), Value(ints(1), "axes")
        shape = graph_of("Shape", [x], out=ints(3))
        squeeze = graph_of("Squeeze", [x, axes], out=TensorType(float32, None))
        again = graph_of("Reshape", [squeeze.outputs[0], shape.outputs[0]], out=floats(1, 3, 1))
        program = deferred([shape, squeeze, again], [x, axes], again.outputs[0])
        assert shape.outputs[0] in continuation(program).constants
        assert run(program, np.ones((1, 3, 1), np.float32), [2])[0].shape == (1, 3, 1)

    def test_a_loop_body_defers_turn_by_turn(self):
        x, item = Value(floats(3, 1), "x"), Value(ints(), "i")
        body = Graph("body", [item, Value(TensorType(np.dtype(bool), ()), "c")])
        axes = graph_of("Reshape", [item, constant([1])], out=ints(1))
        bigger = graph_of("Add", [axes.outputs[0], constant([1])], out=ints(1))
        squeeze = graph_of("Unsqueeze", [x, bigger.outputs[0]], out=floats(3, 1, 1))
        body.nodes = [axes, bigger, squeeze]
        body.outputs = [body.inputs[1], squeeze.outputs[0]]
        loop = graph_of("Loop", [constant(2), None], {"body": body}, TensorType(float32, None))
        program = deferred([loop], [x], loop.outputs[0])
        assert run(program, np.ones((3, 1), np.float32))[0].shape == (2, 3, 1, 1)


def constant(value):
    array = np.array(value, np.int64)
    return Value(TensorType(int64, array.shape), array=array, known=array)


class TestDeadCode:
    def test_what_nobody_needs_is_dropped(self):
        def waste(x):
            waist.map("exp", x)
            return [waist.map("neg", x)]

        assert names(remove_dead(build(waste, floats(2)))) == ["map"]

    def test_what_binds_a_size_that_is_needed_stays(self):
        def ramp(n):
            return [waist.iota(waist.dims(n)[0])]

        program = remove_dead(build(ramp, ints(1)))
        assert "size_of" in names(program)
        assert run(program, [4])[0].tolist() == [0, 1, 2, 3]

    def test_a_body_loses_its_dead_code_and_what_only_that_captured(self):
        def loop(x, y):
            def body(i, going, held):
                waist.map("add", held, y)
                return [going, waist.map("neg", held)]

            return waist.repeat(waist.constant(3, int64), None, [x], body)

        program = remove_dead(build(loop, floats(2), floats(2)))
        (instruction,) = program.instructions
        inner: Program = instruction.attributes["program"]
        assert names(inner) == ["map"] and inner.captures == ()
        assert program.inputs[1] not in instruction.inputs
        results = run(program, np.ones(2, np.float32), np.ones(2, np.float32))
        assert results[0].tolist() == [-1.0, -1.0]


class TestKnownValues:
    def test_arithmetic_on_sizes_is_carried_as_dimensions(self):
        def double(x):
            twice = waist.map("mul", waist.sizes(*x.shape), waist.constant([2, 2], int64))
            return [waist.broadcast(waist.constant(np.float32(1)), waist.dims(twice))]

        assert build(double, floats(N, 3)).outputs[0].type == floats(N * 2, 6)

    def test_folding_stops_at_large_values(self):
        def wide(x):
            return [waist.map("neg", waist.broadcast(waist.constant(np.float32(1)), (10_000,)))]

        assert build(wide, floats(1)).outputs[0].known is None

    def test_an_error_in_folding_is_left_to_the_run(self):
        def outside(x):
            return [waist.take(waist.constant([1, 2], int64), waist.constant(5, int64), 0)]

        assert build(outside, floats(1)).outputs[0].known is None


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        (floats(2, 3), floats(2, 3), floats(2, 3)),
        (floats(2, 3), floats(2, 4), floats(2, None)),
        (floats(2), floats(2, 1), TensorType(float32, None)),
        (SequenceType(floats(2)), SequenceType(floats(3)), SequenceType(TensorType(float32, None))),
    ],
)
def test_a_joined_type_covers_both(left, right, joined):
    assert join_types(left, right) == joined == join_types(right, left)


def test_the_steps_of_a_program_go_with_it():
    runner, programs = Interpreter(), [build(lambda x: [x + x], floats(2))]
    runner.run(programs[0], [np.ones(2, np.float32)])
    assert len(runner.plans) == 1
    programs.clear()
    gc.collect()
    assert not runner.plans
