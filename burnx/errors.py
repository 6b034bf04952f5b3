"""The errors that burnx raises on purpose.

BurnxError
├── UsageError         the call itself is wrong (a SPEC, an option, a missing class); exit status 2
├── ModelError         a file is not a model, is damaged, or says something impossible
├── UnsupportedError   a model is legal but needs something burnx does not have
├── InputError         run-time inputs do not fit the model: name, dtype or shape
├── CallError          an operator, method or module is called with what it does not take
├── ShapeError         shapes do not fit each other
├── DTypeError         a dtype is not allowed here
├── TraceError         Python code needs a tensor's value while it is being captured
│   └── DecisionError  a tensor decides where @burnx.script has no word for it
├── ExportError        a graph cannot be written at the wanted opset
├── WeightsError       weights are missing, damaged, unsafe or of another shape
├── DeviceError        a device or its driver is not there
└── VerifyError        two engines disagree
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BurnxError(Exception):
    """Base of every error that burnx raises on purpose; the message is one readable sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class UsageError(BurnxError):
    """The call itself is wrong; the command line exits with 2."""


class ModelError(BurnxError):
    """A file is not a model, is damaged, or says something impossible."""


class UnsupportedError(BurnxError):
    """A model is legal but needs something that burnx does not have."""


class InputError(BurnxError):
    """Run-time inputs do not fit the model."""


class CallError(BurnxError, TypeError, ValueError):
    """An operator, method or module is called with what it does not take.

    Where Python or NumPy would raise a TypeError or ValueError, code that expects one meets it.
    """


class ShapeError(BurnxError):
    """Shapes do not fit each other."""


class DTypeError(BurnxError):
    """A dtype is not allowed here."""


class TraceError(BurnxError):
    """Python code needs a tensor's value while it is being captured."""


class DecisionError(TraceError):
    """A tensor decides where @burnx.script has no word for it; no handler of the function that is captured takes this."""


class ExportError(BurnxError):
    """A graph cannot be written at the wanted opset."""


class WeightsError(BurnxError):
    """Weights are missing, damaged, unsafe or of another shape."""


class DeviceError(BurnxError):
    """A device or its driver is not there."""


class VerifyError(BurnxError):
    """Two engines disagree."""


@contextmanager
def located(place: str) -> Iterator[None]:
    """Add ``place`` (node, operator, file) to the message of any error raised inside, once.

    Python's own arithmetic, lookup, type and memory errors become a ``ModelError`` that names the place too; their
    words, which are about Python's objects, stay with the cause.
    """
    try:
        yield
    except BurnxError as error:
        if place not in error.message:
            error.message = f"{error.message}, {place}"
        raise
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"its inputs or attributes do not fit together, {place}") from error
    except MemoryError as error:
        raise ModelError(f"not enough memory: {error}, {place}") from error
