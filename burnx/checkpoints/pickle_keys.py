"""What it would cost to hash the keys of a pickle, found out without running it.

Tuples that hold each other twice take a few hundred bytes and years to hash; dictionaries and sets hash what they are
given.  The stack of the pickle is followed with one number for each item: how many items a hash of it would visit.
"""

from __future__ import annotations

import pickletools

from burnx.errors import WeightsError

LARGEST_KEY = 64
_MARK = -1
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})


class KeyCosts:
    """The stack and the memo, an item a number; ``step`` takes the next opcode.

    Raises: WeightsError at a key that is too large.
    """

    __slots__ = ("_memo", "_stack")

    def __init__(self) -> None:
        self._stack: list[int] = []
        self._memo: dict[int, int] = {}

    def step(self, opcode: pickletools.OpcodeInfo, argument: object) -> None:
        name = opcode.name
        if name in _GETS:
            self._stack.append(self._memo.get(int(str(argument)), 1))
        elif name in _PUTS:
            self._memo[int(str(argument))] = self._top()
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top()
        elif name == "DUP":
            self._stack.append(self._top())
        elif name == "MARK":
            self._stack.append(_MARK)
        elif name in _TUPLES:
            self._stack.append(1 + sum(self._take(_TUPLES[name])))
        elif name == "TUPLE":
            self._stack.append(1 + sum(self._take_to_mark()))
        else:
            self._other(opcode)

    def _other(self, opcode: pickletools.OpcodeInfo) -> None:
        """An opcode that takes items off the stack and puts others there, as pickletools says."""
        before, name = opcode.stack_before, opcode.name
        to_mark = pickletools.markobject in before
        taken = self._take_to_mark() if to_mark else []
        fixed = before.index(pickletools.markobject) if to_mark else len(before)
        below = self._take(fixed)
        if name == "SETITEMS":
            self._check(taken[::2])
        elif name == "SETITEM":
            self._check(below[1:2])
        elif name in ("ADDITEMS", "FROZENSET"):
            self._check(taken)
        cost = 1 if name in ("SETITEM", "SETITEMS", "ADDITEMS") else max(1, sum(below + taken))
        self._stack += [cost] * len(opcode.stack_after)

    def _check(self, keys: list[int]) -> None:
        if max(keys, default=0) > LARGEST_KEY:
            raise WeightsError(f"the checkpoint has a key of more than {LARGEST_KEY} parts")

    def _top(self) -> int:
        return self._stack[-1] if self._stack else 1

    def _take(self, count: int) -> list[int]:
        """The last ``count`` items; what is not there costs 1, since the unpickler itself will say so."""
        kept = max(len(self._stack) - count, 0)
        taken = [max(each, 1) for each in self._stack[kept:]]
        del self._stack[kept:]
        return taken

    def _take_to_mark(self) -> list[int]:
        taken: list[int] = []
        while self._stack and (each := self._stack.pop()) != _MARK:
            taken.append(each)
        return taken[::-1]
