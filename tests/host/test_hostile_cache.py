"""The kernel cache under attack and on bad disks: links, foreign directories, crafted entries, kills."""

import hashlib
import json
import logging
import os
import random
import signal
import stat
import time

import pytest

from support.commands import in_json
from support.kernel_cache import KERNEL, UNIT, compiler, entry, folder, fork
from tilewright.jit.cache import KernelCache
from tilewright.jit.entries import MAX_ENTRY_BYTES, CorruptEntry, decode_entry, encode_entry

__all__ = ["compiler", "folder"]  # fixtures

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are those of POSIX")
KILLS = 1000 if os.environ.get("TILEWRIGHT_TESTS") == "all" else 50


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_what_the_cache_makes_is_the_users_alone(compiler, folder):
    before = os.umask(0)
    try:
        KernelCache(folder).get_or_compile(UNIT)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(folder).stat().st_mode) == 0o600


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(compiler, folder, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    kernels = KernelCache(folder)
    folder.mkdir()
    for name in (f"{kernels.key(UNIT, 'sm_90a')}.tmp", f"{kernels.key(UNIT, 'sm_90a')}.kernel"):
        (folder / name).symlink_to(victim)
    assert kernels.get_or_compile(UNIT) == KERNEL
    assert victim.read_text() == "precious"
    assert not entry(folder).is_symlink()


@pytest.mark.parametrize("extra", [False, True])
def test_a_directory_that_everybody_may_write_to_is_not_used(compiler, folder, tmp_path, caplog, extra):
    KernelCache(folder).get_or_compile(UNIT)
    folder.chmod(0o777)
    kernels = KernelCache(tmp_path / "own", [folder]) if extra else KernelCache(folder)
    for _ in range(2):
        assert kernels.get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == (2 if extra else 3)
    (warning,) = warnings(caplog)
    assert warning.endswith(f"every user may write to it (mode 777): chmod o-w {folder}")
    folder.chmod(0o700)
    compiled = compiler.compilations
    assert KernelCache(folder).get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == compiled


def test_a_directory_of_another_user_is_read_only_where_it_is_named_to_be_read(
    compiler, folder, tmp_path, monkeypatch, caplog
):
    KernelCache(folder).get_or_compile(UNIT)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    monkeypatch.setattr("tilewright.jit.entries.ROOT", owner + 2)
    KernelCache(folder).get_or_compile(UNIT)
    assert compiler.compilations == 2
    (warning,) = warnings(caplog)
    assert f"it belongs to user {owner}, and you are user {owner + 1}" in warning
    KernelCache(tmp_path / "own", [folder]).get_or_compile(UNIT)
    assert compiler.compilations == 2


def crafted(header):
    """An entry with a right checksum and this header, as bytes or JSON."""
    rest = (header if isinstance(header, bytes) else json.dumps(header).encode()) + b"\nptx\xffcubin"
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def header(**changes):
    """The header of KERNEL under the key "key", with other values; of its kernel where the name is there."""
    made = json.loads(encode_entry(KERNEL, "key").split(b"\n")[1])
    made["ptx_bytes"] = 3
    for name, value in changes.items():
        (made["kernel"] if name in made["kernel"] or name == "later" else made)[name] = value
    return made


def without(name):
    """The same header without one value of the kernel."""
    made = header()
    del made["kernel"][name]
    return made


CRAFTED = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'"\xff"',
    "deep": b"[" * 100_000,
    "long number": b"1" * 10_000,
    "a list": [],
    "a number": 1,
    "no members": {},
    "null kernel": header(kernel=None),
    "no warnings": header(warnings=None),
    "warnings of numbers": header(warnings=[1]),
    "a word as warnings": header(warnings="word"),
    "a word as registers": header(registers="many"),
    "true registers": header(registers=True),
    "negative registers": header(registers=-1),
    "NaN seconds": header(compile_seconds=float("nan")),
    "another field": header(later=1),
    "no registers": without("registers"),
    "no name": without("name"),
    "registers of a kernel without cubin": header() | {"ptx_bytes": 9},
    "another member": header(more=1),
    "negative ptx_bytes": header(ptx_bytes=-1),
    "too many ptx_bytes": header(ptx_bytes=10),
    "fractional ptx_bytes": header(ptx_bytes=1.5),
    "PTX that is not UTF-8": header(ptx_bytes=4),
    "another key": header(key="other"),
    "a number as key": header(key=1),
}


def test_the_crafted_header_is_right_but_for_the_changes():
    assert decode_entry(crafted(header()), "key").cubin == b"\xffcubin"


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_entry_is_corrupt(name, compiler, folder):
    with pytest.raises(CorruptEntry):
        decode_entry(crafted(CRAFTED[name]), "key")


def place_fifo(path):
    os.mkfifo(path)


def place_endless(path):
    path.symlink_to("/dev/zero")


def place_directory(path):
    path.mkdir()


def place_huge(path):
    with path.open("wb") as file:
        file.truncate(MAX_ENTRY_BYTES + 1)


def place_malformed(path):
    path.write_bytes(crafted({}))


def place_writable(path):
    path.write_bytes(encode_entry(KERNEL, path.stem))
    path.chmod(0o666)


@pytest.mark.parametrize(
    "place", [place_fifo, place_endless, place_directory, place_huge, place_malformed, place_writable]
)
def test_what_is_no_entry_is_quarantined_and_compiled_again(place, compiler, folder, caplog):
    kernels = KernelCache(folder)
    folder.mkdir()
    path = folder / f"{kernels.key(UNIT, 'sm_90a')}.kernel"
    place(path)
    assert kernels.get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == 1
    (warning,) = warnings(caplog)
    assert f"the cache entry {path} is corrupt" in warning
    assert (folder / "quarantine" / path.name).lstat()
    assert decode_entry(path.read_bytes(), path.stem) == KERNEL


def test_a_full_disk_leaves_nothing_behind(compiler, folder):
    resource = pytest.importorskip("resource")

    def compile_on_a_full_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))  # what an entry needs more than
        kernels = KernelCache(folder)
        assert kernels.get_or_compile(UNIT) == KERNEL
        assert [path.name for path in folder.iterdir()] == ["locks"]

    child = fork.Process(target=compile_on_a_full_disk)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert KernelCache(folder).get_or_compile(UNIT) == KERNEL


def test_kills_lose_nothing(compiler, folder):
    """Processes that fill and empty a cache are killed at any moment; what is there is whole, and nobody waits."""
    units = [type(UNIT)(f"unit_{index}", UNIT.text) for index in range(4)]
    kernels = KernelCache(folder)

    def work(seed):
        chosen = random.Random(seed)
        while True:
            if chosen.random() < 0.3:
                kernels.clear()
            kernels.get_or_compile(chosen.choice(units))

    chosen = random.Random(7)
    for seed in range(KILLS // 2):
        pair = [fork.Process(target=work, args=(2 * seed + index,)) for index in range(2)]
        for child in pair:
            child.start()
        for child in pair:
            time.sleep(chosen.random() * 0.02)
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        for path in folder.glob("*.kernel"):
            assert decode_entry(path.read_bytes(), path.stem).name.startswith("unit_")
    for unit in units:
        assert kernels.get_or_compile(unit).name == unit.name
    assert not (folder / "quarantine").exists()
    kernels.clear()
    assert [path.name for path in folder.iterdir()] == ["locks"]


def test_doctor_says_which_directories_are_not_used(tmp_path, monkeypatch):
    own, extra = tmp_path / "own", tmp_path / "extra"
    for path in (own, extra):
        path.mkdir()
        path.chmod(0o777)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(own))
    monkeypatch.setenv("TILEWRIGHT_CACHE_PATH", str(extra))
    found = {finding["name"]: finding for finding in in_json("doctor")["findings"]}
    for name, path in (("cache", own), ("cache, read only", extra)):
        assert found[name]["status"] == "warn"
        assert found[name]["detail"].startswith(f"{path} is not used, since every user may write to it")
        assert found[name]["remedy"]
