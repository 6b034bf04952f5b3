"""The verbs, loaded when they are called, and what becomes of errors."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

import click

import burnx
from burnx.cli.console import Console
from burnx.errors import BurnxError, ModelError, ShapeError, UsageError, VerifyError

INTERRUPTED = 130

# verb -> (module, command in it, one line of help)
VERBS: dict[str, tuple[str, str, str]] = {
    "import": ("burnx.cli.importing", "import_command", "Write a model as readable Python."),
    "export": ("burnx.cli.exporting", "export_command", "Write a model in Python as ONNX."),
    "run": ("burnx.cli.running", "run_command", "Run a model once."),
    "verify": ("burnx.cli.verifying", "verify_command", "Compare a model with onnxruntime."),
    "bench": ("burnx.cli.bench", "bench_command", "Time a model, alone or against others."),
    "inspect": ("burnx.cli.inspecting", "inspect_command", "Say what a model consists of."),
    "conformance": (
        "burnx.cli.conformance",
        "conformance_command",
        "Run the backend tests of the ONNX standard.",
    ),
    "devices": ("burnx.cli.devices", "devices_command", "List what models can run on here."),
    "env": ("burnx.cli.env", "env_command", "Hand on what was compiled and tuned."),
    "demo": ("burnx.cli.demo", "demo_command", "Import, run, export and verify a small model."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module, attribute, _ = VERBS[name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(burnx.__version__, prog_name="burnx", message="%(prog)s %(version)s")
@click.option("--verbose", is_flag=True, help="Show where an error comes from.")
@click.pass_obj
def group(console: Console, /, verbose: bool) -> None:
    """ONNX in, readable Python in between, ONNX out."""
    console.verbose = verbose


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status.

    An error of burnx is one message on stderr; any other error is called internal.  Only
    ``--verbose`` shows a traceback.  A warning is a line on stderr.
    """
    console = Console()
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_: console.notice(f"warning: {message}")
        return _run(arguments, console)


def _run(arguments: Sequence[str] | None, console: Console) -> int:
    """The exit status of the verb that the arguments name."""
    try:
        status = group.main(arguments, "burnx", standalone_mode=False, obj=console)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        return _close_stdout()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1
    except (click.Abort, KeyboardInterrupt):
        console.notice("interrupted")
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except Exception as error:
        return _report(error, console)


def _report(error: Exception, console: Console) -> int:
    """Say what went wrong; the exit status."""
    if console.verbose:
        traceback.print_exception(error)
    message = _message(error)
    console.fail(message)
    if console.made_up and isinstance(error, (ModelError, ShapeError, VerifyError)):
        console.notice("inputs were made up: --dim NAME=N sets a size, --input gives an array")
    return 2 if isinstance(error, UsageError) else 1


def _message(error: Exception) -> str:
    if isinstance(error, BurnxError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    text = " ".join(str(error).split())
    return f"internal error: {type(error).__name__}: {text} (burnx --verbose shows where)"


def _close_stdout() -> int:
    """Whoever read stdout has gone; keep Python from complaining about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
