"""Compiled objects: one compilation a kernel, the folder of objects, and what may go wrong with it."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import warnings
from pathlib import Path

import pytest
from native_code import run_python, start_python

from burnx.errors import DeviceError
from burnx.runtime.compiled import kept_files
from burnx.runtime.devices.cpu import object_files, objects
from burnx.runtime.devices.cpu.object_files import ObjectFiles, find_object_files, name_entry
from burnx.runtime.devices.cpu.objects import load_kernel, load_many
from burnx.runtime.devices.cpu.target import describe_named, find_target

CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_count = iter(range(1_000_000))


def write_adder(number: int) -> str:
    """A function that adds a number, in two steps, one of which is another function of the text."""
    return f"""
@constant = private constant i64 {number}
define internal i64 @more(i64 %x) noinline {{
  %y = load i64, ptr @constant
  %z = add i64 %x, %y
  ret i64 %z
}}
define i64 @kernel(i64 %x) {{
  %z = call i64 @more(i64 %x)
  ret i64 %z
}}
"""


class Text:
    """Makes the text of a kernel of its own, and counts how often it was asked to."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked = 0
        self.key = f"test {os.getpid()} {next(_count)}"

    def __call__(self) -> str:
        self.asked += 1
        time.sleep(0.01)
        return write_adder(self.number)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for objects, not there yet."""
    folder = tmp_path / "of" / "objects"
    find_target()  # asked for now, it leaves nothing there
    monkeypatch.setenv("BURNX_CACHE", str(folder))
    return folder


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded, as in a new process; what was stays loaded beside."""
    loaded = objects._Loaded()
    loaded.libraries = objects._loaded.libraries
    monkeypatch.setattr(objects, "_loaded", loaded)


def forget_loaded() -> None:
    objects._loaded.addresses.clear()


def test_equal_kernels_are_compiled_once_by_many_threads(cache: Path) -> None:
    text = Text(5)
    found = []

    def work() -> None:
        found.append(load_kernel(text.key, text, find_target()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 8 and text.asked == 1
    assert CALL(found[0])(37) == 42


def test_many_kernels_are_loaded_at_once(cache: Path) -> None:
    texts = [Text(number) for number in range(20)]
    pairs = [(text.key, text) for text in texts]
    addresses = load_many([*pairs, pairs[3]], find_target())
    assert [CALL(address)(100) for address in addresses] == [*range(100, 120), 103]
    assert load_many(pairs[5:9], find_target()) == addresses[5:9]
    assert [text.asked for text in texts] == [1] * 20
    assert load_many([], find_target()) == []


def test_the_folder_is_ours_and_keeps_what_was_compiled(cache: Path, forget: None) -> None:
    text = Text(7)
    load_kernel(text.key, text, find_target())
    assert cache.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in cache.iterdir()] == [name_entry(text.key, find_target())]
    forget_loaded()
    assert CALL(load_kernel(text.key, text, find_target()))(1) == 8
    assert text.asked == 1


DAMAGE = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[:-1],
    "cut in its head": lambda content: content[:20],
    "head alone": lambda content: content[: content.index(b"\n") + 33],
    "a bit turned": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "another format": lambda content: content.replace(b"-3\n", b"-2\n", 1),
    "more at the end": lambda content: content + b"x",
    "not ours": lambda content: b"\x7fELF" * 1000,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_an_entry_that_is_damaged_is_written_again(cache: Path, forget: None, kind: str) -> None:
    text = Text(7)
    load_kernel(text.key, text, find_target())
    (entry,) = cache.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(DAMAGE[kind](good))
    for asked in (2, 2):
        forget_loaded()
        assert CALL(load_kernel(text.key, text, find_target()))(1) == 8
        assert text.asked == asked
    assert [each.read_bytes()[:60] for each in cache.iterdir()] == [good[:60]]


def test_a_link_to_an_entry_is_not_followed(cache: Path, forget: None, tmp_path: Path) -> None:
    text = Text(7)
    load_kernel(text.key, text, find_target())
    (entry,) = cache.iterdir()
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    forget_loaded()
    load_kernel(text.key, text, find_target())
    assert text.asked == 2 and not entry.is_symlink()


def test_entries_depend_on_all_that_objects_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    here = find_target()
    names = {name_entry("a", here), name_entry("b", here)}
    names.add(name_entry("a", describe_named(here.triple, "haswell")))
    names.add(name_entry("a", describe_named("aarch64-linux-gnu", "cortex-a72")))
    for versions in (("0", "0.50"), ("0", "0.51"), ("1", "0.50")):
        monkeypatch.setattr(object_files, "list_versions", lambda versions=versions: versions)
        names.add(name_entry("a", here))
    assert len(names) == 7


def test_without_a_cache_nothing_is_written(
    cache: Path, forget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNX_CACHE", "off")
    text = Text(7)
    for asked in (1, 2):
        forget_loaded()
        load_kernel(text.key, text, find_target())
        assert text.asked == asked
    assert not cache.exists()


def test_the_default_folder_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BURNX_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    files = find_object_files()
    assert files == ObjectFiles(str(tmp_path / ".cache" / "burnx" / "kernels"))


def test_a_folder_that_others_may_write_to_is_refused_with_one_warning(
    cache: Path, forget: None
) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    text = Text(7)
    with pytest.warns(RuntimeWarning, match="only its owner") as caught:
        load_kernel(text.key, text, find_target())
    assert len(caught) == 1 and text.asked == 1
    forget_loaded()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_kernel(text.key, text, find_target())
    assert list(cache.iterdir()) == []


def test_a_folder_of_somebody_else_is_refused(
    cache: Path, forget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(parents=True, mode=0o700)
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    text = Text(7)
    with pytest.warns(RuntimeWarning, match="only its owner"):
        assert CALL(load_kernel(text.key, text, find_target()))(1) == 8
    assert list(cache.iterdir()) == []


def test_an_entry_of_somebody_else_is_not_used(
    cache: Path, forget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Text(7)
    load_kernel(text.key, text, find_target())
    files = find_object_files()
    assert files is not None and files.read(text.key, find_target())
    (entry,) = cache.iterdir()
    entry.chmod(0o666)
    assert files.read(text.key, find_target()) is None


def test_a_folder_that_cannot_be_written_to_is_no_cache(
    cache: Path, forget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError("read-only")

    first, second = Text(7), Text(8)
    load_kernel(first.key, first, find_target())
    monkeypatch.setattr(kept_files, "_open_for_us", refuse)
    forget_loaded()
    assert CALL(load_kernel(first.key, first, find_target()))(1) == 8
    assert CALL(load_kernel(second.key, second, find_target()))(1) == 9
    assert (first.asked, second.asked) == (1, 1)
    monkeypatch.setenv("BURNX_CACHE", "/proc/no/folder/can/be/here")
    third = Text(9)
    assert CALL(load_kernel(third.key, third, find_target()))(1) == 10


def test_a_full_disk_leaves_nothing_behind(
    cache: Path, forget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(old: str, new: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    text = Text(7)
    assert CALL(load_kernel(text.key, text, find_target()))(1) == 8
    assert list(cache.iterdir()) == []


LOAD = """
import ctypes, sys
from burnx.runtime.devices.cpu.objects import load_many
from burnx.runtime.devices.cpu.target import find_target
def make(number):
    def text():
        print("made", flush=True)
        return "define i64 @kernel(i64 %x) {\\n  %y = add i64 %x, " + str(number) + "\\n  ret i64 %y\\n}"
    return text
call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
found = load_many([(f"key {n}", make(n)) for n in range(30)], find_target())
assert [call(each)(5) for each in found] == list(range(5, 35))
"""


def test_two_processes_may_compile_at_once(cache: Path) -> None:
    processes = [start_python(LOAD) for _ in range(2)]
    for process in processes:
        _, problems = process.communicate(timeout=60)
        assert process.returncode == 0, problems
    assert len(list(cache.glob("*.o"))) == 30
    assert run_python(LOAD) == ""


def test_a_process_that_is_killed_harms_no_later_one(cache: Path) -> None:
    for lines in (1, 3, 10, 20):
        process = start_python(LOAD)
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.kill()
        process.communicate()
    run_python(LOAD)
    assert run_python(LOAD) == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_forks_while_it_compiles(cache: Path) -> None:
    code = """
import os, threading
from burnx.runtime.devices.cpu.objects import load_kernel
from burnx.runtime.devices.cpu.target import find_target
def compile_many(start):
    for number in range(start, start + 40):
        text = "define i64 @kernel() {\\n  ret i64 " + str(number) + "\\n}"
        load_kernel(text, lambda: text, find_target())
thread = threading.Thread(target=compile_many, args=(0,))
thread.start()
for turn in range(5):
    child = os.fork()
    if child == 0:
        compile_many(1000)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    run_python(code, BURNX_CACHE="off")


def test_text_that_is_wrong_is_an_error_that_quotes_llvm() -> None:
    with pytest.raises(DeviceError, match=r"(?s)valid LLVM text.*nonsense"):
        load_kernel("wrong", lambda: "nonsense", find_target())
    unknown = """
declare void @there_is_no_such_function()
define void @kernel() {
  call void @there_is_no_such_function()
  ret void
}
"""
    with pytest.raises(DeviceError, match="are linked.*Failed to materialize"):
        load_kernel("unknown", lambda: unknown, find_target())
    text = Text(3)
    assert CALL(load_kernel(text.key, text, find_target()))(1) == 4


def test_functions_of_the_mathematical_library_are_found() -> None:
    names = ["expf", "erff", "tanhf", "powf", "fmod"]
    wanted = {"expf": "float", "erff": "float", "tanhf": "float", "powf": "float", "fmod": "double"}
    lines = ["define i64 @kernel(i64 %x) {"]
    declared = []
    for name in names:
        kind = wanted[name]
        pair = name in ("powf", "fmod")
        arguments = f"{kind} 1.0" + (f", {kind} 1.0" if pair else "")
        declared.append(f"declare {kind} @{name}({kind}{', ' + kind if pair else ''})")
        lines.append(f"  %{name} = call {kind} @{name}({arguments})")
    text = "\n".join([*declared, *lines, "  ret i64 %x", "}"])
    assert CALL(load_kernel(text, lambda: text, find_target()))(3) == 3
