"""The command line: burnx VERB.

In: arguments.  Out: files, text on stdout, notices and errors on stderr, and an exit status: 0 done, 1 failed,
2 wrong usage.  May import: every other room, inside the verb that needs it, so that ``burnx --help`` loads none.
Start at ``app.main``; ``rooms`` holds what the verbs ask of the rooms below.
"""

from __future__ import annotations

from burnx.cli.app import main

__all__ = ["main"]
