"""The options that run, verify, bench and inspect share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import click

from burnx.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model, its inputs and how to run it, as the command line says."""

    model: str
    specs: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    devices: tuple[str, ...] = ()
    threads: int | None = None
    fallback: str | None = None
    fuse: bool = True
    tune: bool | None = None
    no_lift: tuple[str, ...] = ()
    weights: str | None = None

    @property
    def device(self) -> str | None:
        """The one device that was asked for; None is the default one."""
        return self.devices[0] if self.devices else None


def parse_dim(text: str) -> tuple[str, int]:
    """NAME=N as a pair.

    Raises: UsageError if it is not of that form.
    """
    name, equals, size = text.rpartition("=")
    if not equals or not name or not re.fullmatch(r"[0-9]+", size):
        raise UsageError(f"--dim is NAME=N with N a whole number; found {text!r}")
    return name, int(size)


def lift_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``--no-lift NAME``."""
    return click.option(
        "--no-lift", "no_lift", metavar="NAME", multiple=True, help="Leave this lift out."
    )(command)


def seed_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what the inputs are."""
    for option in (
        click.option("--seed", type=int, default=0, help="Of made-up inputs (0)."),
        click.option("--dim", "dims", metavar="NAME=N", multiple=True, help="Size of a named dim."),
        click.option(
            "--input",
            "specs",
            metavar="SPEC",
            multiple=True,
            help="[NAME=]@file.npy, @file.npz, [NAME=]SHAPE[:DTYPE], "
            "[NAME=][1, 2.5], or for a scalar NAME=5.",
        ),
    ):
        command = option(command)
    return command


_RUN_OPTIONS = (
    click.option("--weights", metavar="FILE", help="Of a model in Python: not those beside it."),
    click.option("--threads", type=click.IntRange(min=1), help="CPU threads."),
    click.option("--fallback", metavar="D", help="Where to run what the device cannot."),
    click.option("--fuse/--no-fuse", default=True, help="Fuse kernels (on)."),
    click.option("--tune/--no-tune", default=None, help="Tune kernels for this machine."),
)
_DEVICE_HELP = "reference, cpu, opencl:N or cuda:N."


def model_options(
    *, several_devices: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """MODEL and the shared options, handed to the command as one ``ModelRequest``."""

    def wrap(command: Callable[..., Any]) -> Callable[..., Any]:
        names = {item.name for item in fields(ModelRequest)}

        @functools.wraps(command)
        def called(**options: Any) -> Any:
            taken = {name: options.pop(name) for name in list(options) if name in names}
            return command(request=_request(taken), **options)

        text = f"{_DEVICE_HELP}  A list, or once for each." if several_devices else _DEVICE_HELP
        device = click.option(
            "--device", "devices", metavar="D", multiple=several_devices, help=text
        )
        wrapped = lift_option(called)
        for option in reversed(_RUN_OPTIONS):
            wrapped = option(wrapped)
        return click.argument("model")(seed_options(device(wrapped)))

    return wrap


def _request(options: dict[str, Any]) -> ModelRequest:
    devices = options.pop("devices") or ()
    dims = dict(map(parse_dim, options.pop("dims")))
    several = () if isinstance(devices, str) else devices
    listed = [name.strip() for each in several for name in each.split(",")]
    devices = (devices,) if isinstance(devices, str) else tuple(listed)
    return ModelRequest(devices=devices, dims=dims, **options)
