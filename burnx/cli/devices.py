"""burnx devices: what models can run on here."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import click

from burnx.cli.console import Console, json_option, table
from burnx.cli.rooms import list_devices


@click.command("devices")
@json_option
@click.pass_obj
def devices_command(console: Console, /) -> None:
    """List what models can run on here."""
    rows = [describe_device(device) for device in list_devices()]
    headings = list(dict.fromkeys(key for row in rows for key in row)) or ["device"]
    console.say(table(headings, [[row.get(key, "") for key in headings] for row in rows]))
    console.result({"devices": rows})


def describe_device(device: Any) -> dict[str, Any]:
    """A device's public facts by name; one that has none is its own name."""
    if not is_dataclass(device):
        return {"device": str(device)}
    facts = {item.name: getattr(device, item.name) for item in fields(device)}
    return {
        "device" if key == "name" else key: value
        for key, value in facts.items()
        if not key.startswith("_") and isinstance(value, (str, int, float, bool))
    }
