"""The unpickler of checkpoints: what a pickle may name, and the inert objects it gets for it.

No object here can be changed by the pickle's BUILD opcode, and none leads to code: a name is
called only through ``Name``, which knows the function that stands for it.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from burnx.dtype import DTYPES, DType
from burnx.errors import WeightsError
from burnx.files import fits_memory

_STORAGE_DTYPES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
_TORCH_DTYPES = {
    **{name: name for name in ("bool", "bfloat16", "complex64", "complex128")},
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{name: name for name in DTYPES if name.startswith("float8_")},
}


class Name:
    """An allowed global: a dtype, or something that is called to build a part of a tensor."""

    __slots__ = ("build", "dtype", "name")

    def __init__(
        self, name: str, build: Callable[..., Any] | None = None, dtype: DType | None = None
    ) -> None:
        self.name = name
        self.build = build
        self.dtype = dtype

    def __call__(self, *args: Any) -> Any:
        if self.build is None:
            raise WeightsError(f"the checkpoint calls {self.name}, which builds no tensor")
        return self.build(*args)

    def __setstate__(self, state: object) -> None:
        raise WeightsError(f"the checkpoint wants to change {self.name}")


class Storage(NamedTuple):
    """A storage of ``total`` elements, or the part of it that an old checkpoint cuts out."""

    key: str
    dtype: DType
    total: int
    offset_elems: int
    size_elems: int


class StoredTensor(NamedTuple):
    """A tensor that is named and not read yet; offset and strides count elements."""

    storage: Storage
    dtype: DType
    offset_elems: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _StateDict(OrderedDict[Any, Any]):
    """An OrderedDict without the attributes that state_dict() gives it."""

    def __setstate__(self, state: object) -> None:
        """Ignore the state: none of it is a tensor."""


def _state_dict(items: Any = ()) -> _StateDict:
    """What is in it, but for keys that are no names: to hash those may take forever."""
    pairs = [tuple(item) for item in items]
    return _StateDict(pair for pair in pairs if isinstance(pair[0], str | int))


class TensorUnpickler(pickle.Unpickler):
    """An unpickler that knows the names of the table below and nothing else.

    Raises: WeightsError at the first other name, before anything is done with it.
    """

    def __init__(self, data: bytes, storage_dtypes: dict[str, DType]) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._storage_dtypes = storage_dtypes

    def find_class(self, module: str, name: str) -> Any:
        known = NAMES.get(f"{module}.{name}")
        if known is None:
            raise WeightsError(
                f"the checkpoint wants to call {module}.{name}; burnx reads tensors only"
            )
        return known

    def persistent_load(self, pid: Any) -> Storage:
        match pid:
            case ("storage", Name() as kind, str() as key, _, total, *rest) if (
                kind.dtype is not None
            ):
                storage = _name_storage(key, kind.dtype, total, rest[0] if rest else None)
            case _:
                raise WeightsError("the checkpoint names a storage in a way that is not known")
        if self._storage_dtypes.setdefault(key, storage.dtype) != storage.dtype:
            raise WeightsError(f"the checkpoint names storage {key!r} with two dtypes")
        return storage


def _name_storage(key: str, dtype: DType, total: Any, view: Any) -> Storage:
    """``view`` is (key, offset, count) where an old checkpoint cuts one storage out of another."""
    (size,) = _counts((total,), "size of a storage")
    if view is None:
        return Storage(key, dtype, size, 0, size)
    if not isinstance(view, tuple) or len(view) != 3:
        raise WeightsError(f"the view of storage {key!r} is damaged")
    offset, count = _counts(view[1:], "view of a storage")
    if offset + count > size:
        raise WeightsError(f"a view goes past the end of storage {key!r}")
    return Storage(key, dtype, size, offset, count)


def _counts(items: Any, what: str) -> tuple[int, ...]:
    """The items; the message does not print them, since a hostile file may make them anything."""
    if isinstance(items, tuple | list) and all(type(item) is int and item >= 0 for item in items):
        return tuple(items)
    raise WeightsError(f"the checkpoint gives a {what} that is no count")


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> StoredTensor:
    """A tensor; of the values that follow, only the dtype that ``_v3`` gives matters."""
    if not isinstance(storage, Storage):
        raise WeightsError("the checkpoint makes a tensor from something that is no storage")
    named = [item.dtype for item in rest if isinstance(item, Name) and item.dtype is not None]
    dtype = named[0] if named else storage.dtype
    shape, strides = _counts(size, "size of a tensor"), _counts(stride, "stride of a tensor")
    (start,) = _counts((offset,), "offset of a tensor")
    if len(shape) != len(strides) or not fits_memory(shape, dtype.itemsize):
        raise WeightsError("the size and stride of a tensor do not fit each other")
    return StoredTensor(storage, dtype, start, shape, strides)


def _rebuild_from_type(build: Any, kind: Any, args: Any, state: Any) -> Any:
    if not isinstance(build, Name) or not isinstance(args, tuple):
        raise WeightsError("the checkpoint makes a tensor in a way that is not known")
    return build(*args)


def _take_first(data: Any, *rest: Any) -> Any:
    return data


def _take_none(*args: Any) -> None:
    return None


def _size(items: Any = ()) -> tuple[int, ...]:
    return _counts(items, "torch.Size")


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes, as pickles of protocol 2 spell them."""
    if not isinstance(text, str) or encoding != "latin1":
        raise WeightsError("the checkpoint encodes text in a way that is not known")
    return text.encode("latin1")


_BUILDERS: dict[str, Callable[..., Any] | None] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor,
    "torch._utils._rebuild_parameter": _take_first,
    "torch._utils._rebuild_parameter_with_state": _take_first,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch.nn.parameter.Parameter": _take_first,
    "torch.Tensor": None,
    "torch.Size": _size,
    "torch.device": _take_none,
    "collections.OrderedDict": _state_dict,
    "_codecs.encode": _encode,
    "builtins.set": _take_none,  # a set holds no tensors, and would hash whatever it is given
    "__builtin__.set": _take_none,
}
NAMES: dict[str, Name] = {
    **{name: Name(name, build) for name, build in _BUILDERS.items()},
    **{f"torch.{key}": Name(key, dtype=DTYPES[name]) for key, name in _TORCH_DTYPES.items()},
    **{
        f"{module}.{key}": Name(key, dtype=DTYPES[name])
        for module in ("torch", "torch.storage", "torch.cuda")
        for key, name in _STORAGE_DTYPES.items()
    },
}
