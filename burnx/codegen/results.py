"""What a value is by what makes it: the names of variables that take over no other name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from burnx.codegen.inlining import arguments
from burnx.codegen.roles import is_mask, plain_word
from burnx.graph import Value
from burnx.structure.paths import is_place, snake_case
from burnx.structure.tree import Call, Item, LayerCall, Op, nodes_of, writes

# what operators give whose own name is none for it
_WORDS = """
    best: ArgMax; both: And; chosen: Where; filled: ConstantOfShape; context: Attention GroupQueryAttention MultiHeadAttention;
    direction: LpNormalization; either: Or; highest: ReduceMax; inverse: Not; is_equal: Equal;
    is_greater: Greater GreaterOrEqual; is_less: Less LessOrEqual; joined: Concat; larger: Max; least: ArgMin;
    lowest: ReduceMin; magnitude: Abs; mean: ReduceMean; negative: Neg; part: Split;
    picked: ArrayFeatureExtractor Gather GatherElements GatherND; places: NonZero;
    pooled: AveragePool GlobalAveragePool GlobalMaxPool MaxPool; positions: Range; power: Pow; product: MatMul;
    quantized: DynamicQuantizeLinear; result: If Loop Scan; rounded: Round;
    scores: SVMClassifier TreeEnsembleClassifier; shape: Shape; sizes: Sizes; smaller: Min; sums: CumSum;
    total: ReduceSum Sum; weight: DequantizeLinear; weights: Softmax
"""
_ROLES = {
    operator: word.strip()
    for word, _, operators in (part.partition(":") for part in _WORDS.split(";"))
    for operator in operators.split()
}
# operators whose result is what their first operand was, in another form
_FORMS = """
    Add Cast CastLike Clip DequantizeLinear Div Dropout Elu Erf Expand Flatten Gelu HardSigmoid HardSwish Identity LeakyRelu
    Mul Pad QuantizeLinear Relu Reshape Sigmoid Slice Softplus Sqrt Squeeze Sub Swish Tanh Tile Transpose Unsqueeze
"""
_PLAIN = frozenset(_FORMS.split())
PARALLEL = 3
_DECODING = frozenset({"DequantizeLinear"})  # of a constant it makes a weight
# layers of which the same holds
_PLAIN_LAYERS = frozenset(
    {"BatchNorm", "FakeQuantize", "GroupNorm", "InstanceNorm", "LayerNorm", "PReLU", "RMSNorm"}
)

_TAKEN_AS = {"Attention": ("query", "key", "value", "mask"), "RotaryEmbedding": ("", "cos", "sin")}
_RECURRENT = frozenset({"DynamicQuantLSTM", "GRU", "LSTM", "RNN"})
_STATES = ("hidden", "cell")  # what a recurrent layer takes behind its input and lengths


def uses_of(items: Iterable[Item]) -> dict[Value, str]:
    """What values are to those who read them, where that says more than what makes them."""
    found: dict[Value, str] = {}
    for item in items:
        if isinstance(item, Op) and not item.node.domain:
            words = _TAKEN_AS.get(item.node.operator, ())
            for value, word in zip(item.node.inputs, words, strict=False):
                if value is not None and word:
                    found.setdefault(value, word)
        elif isinstance(item, LayerCall) and item.layer.kind in _RECURRENT:
            states = [value for value in item.layer.inputs[2:] if value is not None]
            words = ("state",) if len(set(states)) == 1 else _STATES
            found |= {v: word for v, word in zip(states, words, strict=False) if v not in found}
        elif isinstance(item, Call):
            inside = nodes_of(item)
            found |= {value: "mask" for value in item.inputs if is_mask(value, inside)}
    return found


def crowded(
    items: Sequence[Item], in_place: Mapping[Value, Item], results: Sequence[Value]
) -> set[Value]:
    """The values that need the number of their role, since another of the same word is made while they are of use."""
    roots: dict[Value, Value] = {}
    made: dict[str, dict[Value, int]] = {}
    last: dict[Value, int] = {}
    for place, item in enumerate(items):
        for value in arguments(item):
            last[roots.get(value, value)] = place
        role, first = role_of(item, in_place), _first(item)
        for value in writes(item):
            if role == "x" and first is not None:
                roots[value] = roots.get(first, first)
            else:
                made.setdefault(plain_word(role), {})[value] = place
    for value in results:
        last[roots.get(value, value)] = len(items)
    found: set[Value] = set()
    for values in made.values():
        ordered = sorted(values.items(), key=lambda pair: pair[1])
        for number, (value, place) in enumerate(ordered):
            for other, later in ordered[number + 1 :]:
                if later >= last.get(value, place):
                    break
                found |= {value, other}
    return found


def role_of(item: Item, in_place: Mapping[Value, Item]) -> str:
    """What the result of an item may be called; ``x`` where it is its first operand in another form.

    That is the layer or module it comes from, else its operator; ``in_place`` are items that stand inside of others.
    """
    first = _first(item)
    inner = in_place.get(first) if first is not None else None
    if _is_plain(item):
        return "x" if inner is None else role_of(inner, in_place)
    if isinstance(item, Op):
        return _ROLES.get(item.node.operator) or snake_case(item.node.operator)
    words = [part for part in item.path if not is_place(part) and part != "self"]
    return snake_case(words[-1]) if words else "x"


def has_own_name(item: Item, readers: Mapping[Value, int], in_place: Mapping[Value, Item]) -> bool:
    """Whether what a layer gives is called by its role, though the name of what it takes is free.

    Layers that read one value (``readers`` says how often it is read) give something of their own each, the last one
    too; what is only rounded is what was worked out just before.
    """
    if not isinstance(item, LayerCall) or role_of(item, in_place) == "x":
        return False
    given = item.layer.inputs[0]
    is_side = not _is_plain(item) and given is not None and readers.get(given, 0) >= PARALLEL
    return is_side or item.layer.kind == "FakeQuantize"


def _is_plain(item: Item) -> bool:
    if isinstance(item, Op):
        first = item.node.inputs[0] if item.node.inputs else None
        is_kept = first is None or not first.is_constant or item.node.operator not in _DECODING
        return item.node.operator in _PLAIN and not item.node.domain and is_kept
    return isinstance(item, LayerCall) and item.layer.kind in _PLAIN_LAYERS


def _first(item: Item) -> Value | None:
    """The first operand that is no constant."""
    if isinstance(item, Op):
        values = item.node.inputs
    elif isinstance(item, LayerCall):
        values = list(item.layer.inputs)
    else:
        return None
    return next((value for value in values if value is not None and not value.is_constant), None)
