"""burnx devices: what models can run on here."""

from __future__ import annotations

import click

from burnx.cli.console import Console, json_option, table
from burnx.cli.rooms import list_devices


@click.command("devices")
@json_option
@click.pass_obj
def devices_command(console: Console, /) -> None:
    """List what models can run on here."""
    found = list_devices()
    console.say(table(["device", "about"], [[each.name, each.about] for each in found]))
    console.result({"devices": [{"device": each.name, "about": each.about} for each in found]})
