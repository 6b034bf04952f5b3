"""burnx devices: what models can run on here."""

from __future__ import annotations

from typing import Any

import click

from burnx.cli.console import Console, json_option, table
from burnx.cli.rooms import list_devices


@click.command("devices")
@json_option
@click.pass_obj
def devices_command(console: Console, /) -> None:
    """List what models can run on here."""
    found = list_devices()
    rows = [
        [each.name, each.about, each.driver, f"{each.memory_bytes / 1e9:.3g} GB", str(each.units)]
        for each in found
    ]
    console.say(table(["device", "about", "driver", "memory", "units"], rows))
    console.result({"devices": [_described(each) for each in found]})


def _described(device: Any) -> dict[str, Any]:
    facts = ("about", "driver", "memory_bytes", "units")
    return {"device": device.name, **{name: getattr(device, name) for name in facts}}
