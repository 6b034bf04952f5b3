"""Attention by cuDNN: the graph of one ("scaled dot product attention"), and its launch.

Scores, exponentials and sums are float32; weights are rounded to the operands' dtype, as burnx's own matrix units want them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnx.runtime.devices.cuda.cudnn.plans import (
    NEVER,
    Recipe,
    Site,
    address,
    find_plan,
    open_graph,
    open_library,
)
from burnx.runtime.devices.gpu.driver import Launch, Place
from burnx.runtime.devices.gpu.library_attention import Attention, Heads

QUERY, KEY, VALUE, RESULT, BIAS = 1, 2, 3, 4, 5  # what tensors are called in a plan


def bind_attention(
    site: Site,
    attention: Attention,
    places: Sequence[Place],
    workspace: Place,
    workspace_bytes: int,
) -> Launch:
    """A launch of an attention.

    Raises: DeviceError if cuDNN does not do it, or knows fewer ways than the one that is asked for.
    """
    library, handle = open_library(site.number)
    plan = find_plan(site, ATTENTION, attention, workspace_bytes)
    pack = {
        uid: address(places[heads.buffer], heads.start, dtype)
        for uid, (heads, dtype) in _tensors(attention).items()
    }
    scratch = address(workspace, 0, "float32")
    held = places, workspace

    def launch(_: object = held) -> None:
        library.set_stream(handle, site.stream().ptr)
        plan.execute(pack, scratch, handle=handle)

    return launch


def _tensors(attention: Attention) -> dict[int, tuple[Heads, str]]:
    """Where each tensor of a plan lies, and its dtype, by what it is called there."""
    given = attention.given
    found = {
        QUERY: (attention.queries, given),
        KEY: (attention.keys, given),
        VALUE: (attention.values, given),
        RESULT: (attention.result, given),
    }
    return found if attention.bias is None else {**found, BIAS: (attention.bias, attention.added)}


def describe_attention(library: Any, handle: Any, attention: Attention) -> Any:
    """The graph of an attention."""
    graph, types = open_graph(library, handle, attention.given)

    def tensor(uid: int, name: str) -> Any:
        heads, dtype = _tensors(attention)[uid]
        return graph.tensor(
            dim=list(heads.extents),
            stride=[*heads.steps, 1],
            data_type=types[dtype],
            name=name,
            uid=uid,
        )

    added = {} if attention.bias is None else {"bias": tensor(BIAS, "bias")}
    result, _ = graph.sdpa(
        q=tensor(QUERY, "queries"),
        k=tensor(KEY, "keys"),
        v=tensor(VALUE, "values"),
        generate_stats=False,
        attn_scale=attention.factor,
        compute_data_type=types["float32"],
        **added,
    )
    made = attention.result
    result.set_output(True).set_data_type(types[attention.given]).set_uid(RESULT)
    result.set_dim(list(made.extents)).set_stride([*made.steps, 1])
    return graph


# The frontend's own engines are written in Python, at run time, with packages that burnx does not ask for.
ATTENTION = Recipe("an attention", describe_attention, lambda _: NEVER, ("sdpa_fwd_prefill",))
