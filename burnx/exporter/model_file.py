"""Files that take the place of others together, or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from burnx.errors import BurnxError, UsageError


@contextmanager
def replaced_files(target: Path) -> Iterator[Path]:
    """A new folder beside ``target``: the files put there go beside it when the block ends well.

    ``target`` itself goes last.  On an error the folder's older files are as they were.

    Raises: UsageError if nothing can be written there, BurnxError if writing fails later.
    """
    try:
        folder = Path(tempfile.mkdtemp(".part", f".{target.name[:80]}.", target.parent))
    except OSError as error:
        raise UsageError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    try:
        yield folder
        _move_beside(folder, target)
    except OSError as error:
        raise BurnxError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move_beside(folder: Path, target: Path) -> None:
    saved = folder / "saved"
    saved.mkdir()
    fresh = sorted(
        (path for path in folder.iterdir() if path.is_file()),
        key=lambda path: path.name == target.name,
    )
    moved: list[Path] = []
    try:
        for path in fresh:
            place = target.with_name(path.name)
            if place.exists():
                os.chmod(path, stat.S_IMODE(place.stat().st_mode))
                os.link(place, saved / path.name)
            os.replace(path, place)
            moved.append(place)
    except OSError:
        for place in moved:
            _restore(saved / place.name, place)
        raise


def _restore(saved: Path, place: Path) -> None:
    if saved.exists():
        os.replace(saved, place)
    else:
        place.unlink(missing_ok=True)
