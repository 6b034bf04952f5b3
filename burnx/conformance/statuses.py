"""The statuses of a test on a route."""

from __future__ import annotations

STATUSES = ("pass", "wrong", "unsupported", "error", "skip")
"""wrong: other values than the expected ones; unsupported: refused, or a declared limitation;
error: any other exception, a crash or a timeout; skip: expected values that nobody can compute."""
