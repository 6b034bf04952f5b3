"""Environments as files: there and back, what is of no use here, and files that are not to be believed."""

from __future__ import annotations

import json
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import nn, ops
from burnx.cli.app import main
from burnx.errors import ModelError, UsageError
from burnx.runtime.compiled.kept_files import open_environment
from burnx.runtime.devices.cpu import building
from burnx.runtime.environments import carry
from burnx.runtime.environments.carry import (
    clear,
    export_environment,
    import_environment,
    summarize,
)
from burnx.runtime.environments.contents import list_names
from burnx.runtime.environments.machine import describe_machine
from burnx.runtime.kept import entries


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, with an environment called "first" that holds three kernels."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("BURNX_CACHE", str(folder))
    monkeypatch.setenv("BURNX_ENV", "first")
    add_kernels("first", 3)
    return folder


def add_kernels(name: str, count: int, **about: str) -> None:
    from burnx.runtime.devices.cpu.object_files import describe_target
    from burnx.runtime.devices.cpu.target import find_target

    files = open_environment(name)
    assert files is not None
    made_for = {**describe_target(find_target()), **about}
    for number in range(count):
        entry = sha256(f"{number}{about}".encode()).hexdigest() + ".o"
        files.write_entry(entry, b"code %d" % number, made_for)


def names_in(name: str) -> list[str]:
    files = open_environment(name)
    assert files is not None
    return list(list_names(files))


def test_an_environment_goes_there_and_back(cache: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "first.env")
    export_environment("first", path)
    report = import_environment(path, "second")
    assert report.taken == {"kernel": 3} and not report.left and not report.reasons
    assert names_in("second") == names_in("first")
    one, two = open_environment("first"), open_environment("second")
    assert one is not None and two is not None
    for name in names_in("first"):
        assert one.read_entry(name) == two.read_entry(name) is not None


def test_equal_environments_make_equal_files(cache: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        export_environment("first", str(tmp_path / name))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_environment_is_what_runs_leave_in_it_and_makes_them_warm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from burnx.runtime.devices.cpu import objects

    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("BURNX_CACHE_MB", "64")
    x = np.ones((2, 8), np.float32)

    def run() -> Any:
        loaded = objects._Loaded()
        loaded.libraries = objects._loaded.libraries  # what others hold addresses of
        monkeypatch.setattr(objects, "_loaded", loaded)
        return burnx.compile(lambda x: ops.exp(ops.mat_mul(x, x.transpose((1, 0)))))(x).numpy()

    monkeypatch.setenv("BURNX_ENV", "one")
    first = run()
    assert objects.compiled_kernels() > 0
    export_environment("one", str(tmp_path / "one.env"))
    import_environment(str(tmp_path / "one.env"), "two")
    monkeypatch.setenv("BURNX_ENV", "two")
    np.testing.assert_array_equal(run(), first)
    assert objects.compiled_kernels() == 0
    assert names_in("default") == []


def test_a_plan_goes_with_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("BURNX_CACHE_MB", "64")
    monkeypatch.setenv("BURNX_ENV", "one")

    class Chain(nn.Module):
        def __init__(self) -> None:
            self.layers = [nn.Linear(160, 160) for _ in range(6)]

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = ops.exp(ops.sin(layer(x)))
            return x

    chain = Chain()
    burnx.compile(chain, "cpu")(np.ones((2, 160), np.float32))
    assert any(name.startswith("plans/") for name in names_in("one"))
    export_environment("one", str(tmp_path / "one.env"))
    report = import_environment(str(tmp_path / "one.env"), "two")
    # six layers whose fresh weights are equal share one constant
    assert report.taken["plan"] == report.taken["constant"] == 1 and not report.left
    monkeypatch.setenv("BURNX_ENV", "two")
    monkeypatch.setattr(building, "build_native", None)  # nothing is built anew
    burnx.compile(chain, "cpu")(np.ones((2, 160), np.float32))


@pytest.mark.parametrize(
    "about, why",
    [
        ({"processor": "pentium"}, "processor is 'pentium' there"),
        ({"burnx": "0.0.1"}, "burnx is '0.0.1' there"),
        ({"for": "vulkan", "arch": "9"}, "it is for vulkan, which is not here"),
    ],
)
def test_what_is_of_no_use_here_is_left_with_its_reason(
    cache: Path, tmp_path: Path, about: dict[str, str], why: str
) -> None:
    add_kernels("first", 2, **about)
    export_environment("first", str(tmp_path / "file"))
    report = import_environment(str(tmp_path / "file"), "second")
    assert report.taken == {"kernel": 3} and report.left == {"kernel": 2}
    ((told, count),) = report.reasons.items()
    assert told.startswith(why) and count == 2
    assert len(names_in("second")) == 3


def test_results_of_tuning_go_with_their_environment(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from burnx.runtime.devices.cpu.results import results_of
    from burnx.runtime.devices.cpu.target import find_target
    from burnx.runtime.tuning.store import find_store

    results_of(find_target()).keep({"choice": "a"}, "packing", 5)
    find_store({"for": "opencl", "device": "another"}).keep({"form": "b"}, "kernel")
    export_environment("first", str(tmp_path / "file"))
    report = import_environment(str(tmp_path / "file"), "second")
    assert report.taken == {"kernel": 3, "tuning": 1} and report.left == {"tuning": 1}
    monkeypatch.setenv("BURNX_ENV", "second")
    assert results_of(find_target()).find("packing", 5) == {"choice": "a"}


def test_environments_are_listed_and_cleared_one_by_one(cache: Path) -> None:
    add_kernels("default", 1)
    assert {each.name: each.entries for each in summarize()} == {
        "default": {"kernel": 1},
        "first": {"kernel": 3},
    }
    assert clear("first").entries == {"kernel": 3}
    assert [each.name for each in summarize()] == ["default"]
    add_kernels("first", 3)
    assert clear("default").entries == {"kernel": 1}
    assert names_in("default") == [] and len(names_in("first")) == 3


def test_no_environment_is_made_by_asking_for_one(cache: Path, tmp_path: Path) -> None:
    add_kernels("elsewhere", 2, cpu="none")
    export_environment("elsewhere", str(tmp_path / "useless"))
    clear("nobody")
    with pytest.raises(UsageError, match="is empty"):
        export_environment("nobody", str(tmp_path / "file"))
    assert import_environment(str(tmp_path / "useless"), "nobody").left == {"kernel": 2}
    (tmp_path / "bad").write_bytes((tmp_path / "useless").read_bytes()[:-30])
    with pytest.raises(ModelError, match="as it was exported"):
        import_environment(str(tmp_path / "bad"), "nobody")
    (cache / "environments" / "no name").mkdir()
    assert [each.name for each in summarize()] == ["default", "elsewhere", "first"]


# ------------------------------------------------------------------------------------------------ hostile files
def rewrite(source: Path, target: Path, change: Any) -> None:
    """An exported file with its (name, bytes) changed; the manifest is one of them."""
    with zipfile.ZipFile(source) as archive:
        files = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in change(files):
            archive.writestr(name, data)


def with_manifest(change: Any) -> Any:
    """The file with its manifest changed."""

    def changed(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        manifest = json.loads(files[0][1])
        change(manifest)
        return [(files[0][0], json.dumps(manifest).encode()), *files[1:]]

    return changed


def renamed(name: str) -> Any:
    def changed(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        manifest = json.loads(files[0][1])
        manifest["entries"][0]["name"] = name
        first = next(place for place, (each, _) in enumerate(files) if each.endswith(".o"))
        files[first] = (name, files[first][1])
        return [(files[0][0], json.dumps(manifest).encode()), *files[1:]]

    return changed


def grown(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    return [files[0], (files[1][0], files[1][1] + b"more"), *files[2:]]


def turned(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    data = files[1][1]
    return [files[0], (files[1][0], data[:-1] + bytes([data[-1] ^ 1])), *files[2:]]


def no_entry(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Bytes that the manifest's checksum is right for, and that are no entry of burnx."""
    manifest, data = json.loads(files[0][1]), b"\x7fELF" * 10
    entry = next(e for e in manifest["entries"] if e["name"] == files[1][0])
    entry.update(size=len(data), sha256=sha256(data).hexdigest())
    return [(files[0][0], json.dumps(manifest).encode()), (files[1][0], data), *files[2:]]


SUM = "0" * 64
HOSTILE = {
    "path upwards": (renamed("../" + SUM + ".o"), "no name of an entry"),
    "absolute path": (renamed("/tmp/" + SUM + ".o"), "no name of an entry"),
    "another folder": (renamed("environments/x/" + SUM + ".o"), "no name of an entry"),
    "a back slash": (renamed("..\\" + SUM + ".o"), "no name of an entry"),
    "another suffix": (renamed(SUM + ".py"), "no name of an entry"),
    "grown entry": (grown, "not of the size"),
    "wrong checksum": (turned, "checksum"),
    "no entry of burnx": (no_entry, "not what its manifest says"),
    "no manifest": (lambda files: files[1:], "begin with a manifest"),
    "manifest no JSON": (lambda files: [(files[0][0], b"{"), *files[1:]], "no JSON"),
    "deep manifest": (lambda files: [(files[0][0], b"[" * 100_000), *files[1:]], "no JSON"),
    "file not listed": (lambda files: [*files, ("more", b"x")], "other files"),
    "file missing": (lambda files: files[:-1], "other files"),
    "other format": (with_manifest(lambda m: m.update(format=99)), "its format is 99"),
    "entries no list": (with_manifest(lambda m: m.update(entries={})), "what its entries are"),
    "entry of numbers": (with_manifest(lambda m: m["entries"].append(3)), "what its entries are"),
    "about of another": (
        with_manifest(lambda m: m["entries"][0]["about"].update(burnx="9")),
        "not what its manifest says",
    ),
    "huge entry": (
        with_manifest(lambda m: m["entries"][0].update(size=1 << 50)),
        "not of the size",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_whole(cache: Path, tmp_path: Path, kind: str) -> None:
    change, why = HOSTILE[kind]
    export_environment("first", str(tmp_path / "good"))
    rewrite(tmp_path / "good", tmp_path / "bad", change)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ModelError, match=why):
        import_environment(str(tmp_path / "bad"), "first")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_says_less_than_it_unpacks_to_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_environment("first", str(tmp_path / "good"))
    monkeypatch.setattr(carry, "WHOLE_MOST", 10)
    with pytest.raises(ModelError, match="larger than any"):
        import_environment(str(tmp_path / "good"), "second")
    assert names_in("second") == []


def test_a_file_that_unpacks_to_far_more_than_it_is_is_refused_unread(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_environment("first", str(tmp_path / "good"))
    size = 64 << 20

    def swollen(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        manifest = json.loads(files[0][1])
        next(e for e in manifest["entries"] if e["name"] == files[1][0])["size"] = size
        return [
            (files[0][0], json.dumps(manifest).encode()),
            (files[1][0], bytes(size)),
            *files[2:],
        ]

    rewrite(tmp_path / "good", tmp_path / "bad", swollen)
    monkeypatch.setattr(carry, "_check_entry", lambda *given: pytest.fail("it was read"))
    with pytest.raises(ModelError, match="larger than any"):
        import_environment(str(tmp_path / "bad"), "second")


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.99])
def test_a_truncated_file_is_refused(cache: Path, tmp_path: Path, part: float) -> None:
    export_environment("first", str(tmp_path / "good"))
    data = (tmp_path / "good").read_bytes()
    (tmp_path / "bad").write_bytes(data[: int(len(data) * part)])
    with pytest.raises(ModelError, match="as it was exported"):
        import_environment(str(tmp_path / "bad"), "second")


@pytest.mark.parametrize(
    "files",
    [
        5,
        [5],
        [[]],
        [[None]],
        [[{}, 1]],
        [[["x"], 1]],
        [[1 << 70, 1]],
        [["a", "b"]],
        {"a": 1},
        "abc",
    ],
)
def test_a_plan_that_names_its_files_wrongly_is_refused(
    cache: Path, tmp_path: Path, files: Any
) -> None:
    write_plan(tmp_path / "bad", files)
    with pytest.raises(ModelError, match="is not what its manifest says"):
        import_environment(str(tmp_path / "bad"), "second")


@pytest.mark.parametrize("path", ["a\0b", "\ud800", ""])
def test_a_plan_of_a_file_that_cannot_be_is_of_no_use(
    cache: Path, tmp_path: Path, path: str
) -> None:
    write_plan(tmp_path / "odd", [[path, 1, 2, 3, 4, 5]])
    assert import_environment(str(tmp_path / "odd"), "second").left == {"plan": 1}


def write_plan(path: Path, files: Any) -> None:
    """An exported file with one plan, all of whose sums are right."""
    about = dict(describe_machine()[0])
    with (path.parent / "plan").open("w+b") as file:
        entries._write(file, {"about": about, "files": files}, None, entries.Constants())
        file.seek(0)
        data = file.read()
    name = f"plans/{SUM}.plan"
    entry = {"name": name, "kind": "plan", "size": len(data), "about": about}
    entry["sha256"] = sha256(data).hexdigest()
    head = {"format": carry.FORMAT, "burnx": "0", "name": "x", "machine": [], "entries": [entry]}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(head))
        archive.writestr(name, data)


def test_other_packings_are_refused(cache: Path, tmp_path: Path) -> None:
    export_environment("first", str(tmp_path / "good"))
    with zipfile.ZipFile(tmp_path / "good") as archive:
        files = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(tmp_path / "bad", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(files[0][0], files[0][1], zipfile.ZIP_STORED)
        for name, data in files[1:]:
            archive.writestr(name, data)
    with pytest.raises(ModelError, match="packed in a way"):
        import_environment(str(tmp_path / "bad"), "second")


@pytest.mark.parametrize("ends", [(b"", b"more"), (b"less", b""), (b"", bytes(70_000))])
def test_a_file_with_more_before_or_behind_is_refused(
    cache: Path, tmp_path: Path, ends: tuple[bytes, bytes]
) -> None:
    export_environment("first", str(tmp_path / "good"))
    data = (tmp_path / "good").read_bytes()
    (tmp_path / "bad").write_bytes(ends[0] + data + ends[1])
    with pytest.raises(ModelError, match="as it was exported"):
        import_environment(str(tmp_path / "bad"), "second")


def test_any_byte_that_differs_is_noticed_or_changes_nothing(cache: Path, tmp_path: Path) -> None:
    export_environment("first", str(tmp_path / "good"))
    data = (tmp_path / "good").read_bytes()
    good = {name: open_environment("first").read_entry(name) for name in names_in("first")}  # type: ignore[union-attr]
    for place in range(0, len(data), 37):
        bad = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        (tmp_path / "bad").write_bytes(bad)
        clear("second")
        try:
            import_environment(str(tmp_path / "bad"), "second")
        except ModelError:
            assert names_in("second") == []
            continue
        second = open_environment("second")
        assert second is not None
        assert {name: second.read_entry(name) for name in names_in("second")} == good


def test_nothing_to_export_and_no_folder_are_said(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="is empty"):
        export_environment("third", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot be read"):
        import_environment(str(tmp_path / "nothing"), "first")
    monkeypatch.setenv("BURNX_CACHE", "off")
    assert summarize() == []
    for asked in (lambda: export_environment("first", str(tmp_path / "file")), lambda: clear("x")):
        with pytest.raises(UsageError, match="nothing is kept here"):
            asked()


# ------------------------------------------------------------------------------------------------ command line
def test_the_command_line_does_all_four(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = str(tmp_path / "file"), str(tmp_path / "out.json")
    assert main(["env", "list", "--json", out]) == 0
    assert "first" in capsys.readouterr().out
    listed = json.loads(Path(out).read_text())["environments"]
    assert {each["name"]: each["entries"] for each in listed}["first"] == {"kernel": 3}
    assert main(["env", "export", path]) == 0
    assert main(["env", "clear"]) == 0 and names_in("first") == []
    assert main(["env", "import", path, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))["usable"] == {
        "kernel": 3
    }
    assert len(names_in("first")) == 3


@pytest.mark.parametrize("name", ["../x", "", "a/b", "x" * 65, ".hidden"])
def test_a_name_that_is_no_folders_is_refused(
    cache: Path, capsys: pytest.CaptureFixture[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["env", "clear", "--name", name]) == 2
    assert "the name of an environment is letters" in capsys.readouterr().err
    if name:
        monkeypatch.setenv("BURNX_ENV", name)
        with pytest.raises(UsageError, match="BURNX_ENV"):
            burnx.compile(lambda x: x + 1)(np.ones(3, np.float32))
