"""NumPy as a library of products, convolutions and attentions: it does what it is asked for to the letter, in the host's memory."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from burnx.dtype import DTYPES
from burnx.errors import DeviceError
from burnx.runtime.devices.gpu.library import Asked, Gemm, Matrix
from burnx.runtime.devices.gpu.library_attention import Attention, Heads
from burnx.runtime.devices.gpu.library_convolution import Convolution, Image, Stage

Array = np.ndarray[Any, Any]
DEVICE = "opencl:0"


def places_of(matrix: Matrix, rows: int, columns: int, batch: int) -> Array:
    """The element that each of a matrix is, in its buffer."""
    which, row, column = np.ogrid[:batch, :rows, :columns]
    along = row * matrix.column + column if matrix.turned else column * matrix.column + row
    found: Array = matrix.start + which * matrix.next + along
    return found


def places_in(start: int, steps: Sequence[int], extents: Sequence[int]) -> Array:
    """The element that each of an array with these steps is, in its buffer."""
    parts = [each * step for each, step in zip(np.ogrid[tuple(map(slice, extents))], steps)]
    return np.asarray(start + sum(parts))


class NumpyLibrary:
    """``asked`` are the works that were bound, ``fixed`` whether the filters of convolutions were constants."""

    def __init__(self, driver: Any) -> None:
        self.driver, self.asked = driver, list[Asked]()
        self.fixed: list[bool] = []
        self.change: Callable[[Array], Array] = lambda result: result

    def bind(self, gemm: Gemm, places: Any, workspace: Any, workspace_bytes: int) -> Any:
        self._note(gemm)
        return lambda: self.carry_out(gemm, places)

    def bind_convolution(
        self, known: tuple[Convolution, bool], places: Any, workspace: Any, workspace_bytes: int
    ) -> Any:
        self._note(known[0])
        self.fixed.append(known[1])
        return lambda: self.convolve(known[0], places)

    def bind_attention(
        self, attention: Attention, places: Any, workspace: Any, workspace_bytes: int
    ) -> Any:
        self._note(attention)
        return lambda: self.attend(attention, places)

    def _note(self, asked: Asked) -> None:
        self.asked.append(asked)
        if asked.rank == 2:
            raise DeviceError("there is no third way")

    def read(self, place: Any, where: Array, dtype: str) -> Array:
        memory = np.empty(int(where.max()) + 1, DTYPES[dtype])
        self.driver.download(place, memory)
        return memory[where]

    def write(self, place: Any, where: Array, result: Array, dtype: str) -> None:
        assert len(np.unique(where)) == where.size, "an element is written twice"
        memory = np.empty(int(where.max()) + 1, DTYPES[dtype])
        self.driver.download(place, memory)
        memory[where] = result.astype(DTYPES[dtype])
        self.driver.upload(place, memory)

    def carry_out(self, gemm: Gemm, places: Any) -> None:
        def values(matrix: Matrix, rows: int, columns: int, dtype: str) -> Array:
            where = places_of(matrix, rows, columns, gemm.batch)
            return self.read(places[matrix.buffer], where, dtype).astype(np.float32)

        first = values(gemm.first, gemm.rows, gemm.inner, gemm.given)
        second = values(gemm.second, gemm.inner, gemm.columns, gemm.given)
        result = np.float32(gemm.factor) * (first @ second)
        if gemm.added is not None:
            result = result + values(gemm.added, gemm.rows, gemm.columns, gemm.made)
        if gemm.bias is not None:
            where = gemm.bias[1] + np.arange(gemm.rows)
            result = result + self.read(places[gemm.bias[0]], where, gemm.made)[:, None]
        where = places_of(gemm.result, gemm.rows, gemm.columns, gemm.batch)
        self.write(places[gemm.result.buffer], where, self.change(result), gemm.made)

    def convolve(self, asked: Convolution, places: Any) -> None:
        """Sums over the window, place by place; pictures, rows, columns and channels are the axes."""
        groups, kernels = asked.groups, asked.kernels
        x = self._image(asked.image, asked.size, groups * asked.channels, asked, places)
        x = x.reshape(*x.shape[:3], groups, asked.channels)
        buffer, start, steps = asked.filter
        extents = (groups, kernels, *asked.window, asked.channels)
        where = places_in(start, steps, extents)
        w = self.read(places[buffer], where, asked.given).astype(np.float32)
        sums = np.zeros((asked.pictures, *asked.out, groups, kernels), np.float32)
        for row, column in itertools.product(*map(range, asked.window)):
            part = x
            for axis, place in ((1, row), (2, column)):
                first = place * asked.dilations[axis - 1]
                step, count = asked.strides[axis - 1], asked.out[axis - 1]
                part = part.take(first + step * np.arange(count), axis)
            sums += np.einsum("nhwgc,gkc->nhwgk", part, w[:, :, row, column])
        result = sums.reshape(*sums.shape[:3], -1)
        for stage in asked.stages:
            result = self._follow(result, stage, asked, places)
        where = self._where(asked.result, asked.out, result.shape[3], asked)
        self.write(places[asked.result.buffer], where, self.change(result), asked.made)

    def attend(self, asked: Attention, places: Any) -> None:
        """In float32; rows of heads are the last two axes."""

        def values(heads: Heads, dtype: str) -> Array:
            where = places_in(heads.start, (*heads.steps, 1), heads.extents)
            return self.read(places[heads.buffer], where, dtype).astype(np.float32)

        keys, given = (values(each, asked.given) for each in (asked.keys, asked.values))
        queries, count = values(asked.queries, asked.given), asked.queries.extents[1]
        keys, given = (each.repeat(count // each.shape[1], axis=1) for each in (keys, given))
        scores = queries @ np.swapaxes(keys, 2, 3) * np.float32(asked.factor)
        if asked.bias is not None:
            scores = scores + values(asked.bias, asked.added)
        powers = np.exp(scores - scores.max(axis=3, keepdims=True))
        result = powers @ given / powers.sum(axis=3, keepdims=True)
        made = asked.result
        where = places_in(made.start, (*made.steps, 1), made.extents)
        self.write(places[made.buffer], where, self.change(result), asked.given)

    def _follow(self, result: Array, stage: Stage, asked: Convolution, places: Any) -> Array:
        if stage.image is not None:
            where = self._where(stage.image, asked.out, result.shape[3], asked)
            more = self.read(places[stage.image.buffer], where, stage.dtype)
            return result + more.astype(np.float32)
        if stage.kind == "round":
            return result.astype(DTYPES[stage.dtype]).astype(np.float32)
        choose = {"max": np.maximum, "min": np.minimum}[stage.kind]
        return np.asarray(choose(result, np.float32(stage.number)))

    def _image(
        self, image: Image, size: tuple[int, int], channels: int, asked: Convolution, places: Any
    ) -> Array:
        where = self._where(image, size, channels, asked)
        return self.read(places[image.buffer], where, asked.given).astype(np.float32)

    def _where(
        self, image: Image, size: tuple[int, int], channels: int, asked: Convolution
    ) -> Array:
        return places_in(image.start, (*image.steps, 1), (asked.pictures, *size, channels))


def results(tmp_path: Path) -> list[dict[str, Any]]:
    """The results of races that were kept."""
    found = []
    for file in (tmp_path / "kernels" / "tuning").glob("*.json"):
        text = file.read_bytes().decode("latin1")
        if '{"form"' in text:
            found.append(json.loads(text[text.index('{"form"') :]))
    return found
