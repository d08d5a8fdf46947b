"""The kernel cache under concurrency, corruption and interruption, with a compiler that only pretends."""

import logging
import os
import signal
import threading
import time
from pathlib import Path

import filelock
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kernel_cache import KERNEL, UNIT, compiler, entry, folder, fork
from tilewright.jit import cache, source
from tilewright.jit.cache import KernelCache, contents
from tilewright.jit.compile import CompilationError
from tilewright.jit.entries import METADATA_FIELDS, CorruptEntry, decode_entry, encode_entry
from tilewright.jit.source import TranslationUnit

__all__ = ["compiler", "folder"]  # fixtures


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited in vain")


def run_and_kill(work, until):
    """Run `work` in a child process; SIGKILL it once `until` holds."""
    child = fork.Process(target=work)
    child.start()
    wait_until(until)
    os.kill(child.pid, signal.SIGKILL)
    child.join()


def test_an_entry_outlives_the_cache_object(compiler, folder):
    first = KernelCache(folder).get_or_compile(UNIT, "sm_90a")
    second = KernelCache(folder).get_or_compile(UNIT, "sm_90a")
    assert second == first == KERNEL
    assert compiler.compilations == 1


@pytest.mark.parametrize(
    "change", ["name", "text", "header", "arch", "nvrtc version", "options", "entry format", "entry fields"]
)
def test_every_ingredient_changes_the_key(change, compiler, folder, monkeypatch):
    headers = {"toy.cuh": "// a header\n"}
    monkeypatch.setattr(source, "HEADERS", headers)
    source.headers_digest.cache_clear()
    unit, arch, kernels = TranslationUnit("toy", "text", ("toy.cuh",)), "sm_90a", KernelCache(folder)
    before = kernels.key(unit, arch)
    match change:
        case "name":
            unit = unit._replace(name="other")
        case "text":
            unit = unit._replace(text="other")
        case "header":
            headers["toy.cuh"] += "// edited\n"
            source.headers_digest.cache_clear()
        case "arch":
            arch = "sm_80"
        case "nvrtc version":
            compiler.version = "13.6.1"
        case "options":
            compiler.OPTIONS = (*compiler.OPTIONS, "--fmad=false")
        case "entry format":
            monkeypatch.setattr(cache, "ENTRY_FORMAT", cache.ENTRY_FORMAT + 1)
        case "entry fields":
            monkeypatch.setattr(cache, "METADATA_FIELDS", (*METADATA_FIELDS, "later"))
    assert kernels.key(unit, arch) != before
    source.headers_digest.cache_clear()


def test_directories_are_resolved_once(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "relative")
    monkeypatch.setenv("TILEWRIGHT_CACHE_PATH", os.pathsep.join(["~/more", "../other"]))
    monkeypatch.chdir(tmp_path)
    kernels = KernelCache()
    monkeypatch.chdir("/")
    assert kernels.directory == tmp_path / "relative"
    assert kernels.extra_directories == (tmp_path / "home" / "more", tmp_path.parent / "other")


def test_the_key_is_the_same_in_every_cache(compiler, tmp_path):
    assert KernelCache(tmp_path / "a").key(UNIT, "sm_80") == KernelCache(tmp_path / "b").key(UNIT, "sm_80")


def test_processes_that_ask_at_once_compile_once_and_agree(compiler, folder):
    compiler.seconds = 0.2
    answers = fork.Queue()
    start = fork.Barrier(6)

    def ask():
        start.wait()
        answers.put(KernelCache(folder).get_or_compile(UNIT, "sm_90a"))

    children = [fork.Process(target=ask) for _ in range(6)]
    for child in children:
        child.start()
    assert [answers.get(timeout=20) for _ in children] == [KERNEL] * 6
    for child in children:
        child.join()
    assert compiler.compilations == 1


def test_different_keys_compile_side_by_side(compiler, folder):
    kernels = KernelCache(folder)
    with filelock.FileLock(folder / "locks" / f"{kernels.key(UNIT, 'sm_80')}.lock"):
        assert kernels.get_or_compile(UNIT, "sm_90a").arch == "sm_90a"


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "empty": b"",
            "truncated": content[:middle],
            "lacks the last byte": content[:-1],
            "flipped byte": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "flipped digest": bytes([content[0] ^ 1]) + content[1:],
            "grown": content + b"\0",
            "foreign": b"not an entry at all",
        }[how]
    )


@pytest.mark.parametrize(
    "how", ["empty", "truncated", "lacks the last byte", "flipped byte", "flipped digest", "grown", "foreign"]
)
def test_a_corrupt_entry_is_quarantined_and_compiled_again(how, compiler, folder, caplog):
    kernels = KernelCache(folder)
    kernels.get_or_compile(UNIT)
    damage(entry(folder), how)
    damaged = entry(folder).read_bytes()
    assert kernels.get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == 2
    assert entry(folder / "quarantine").read_bytes() == damaged
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert entry(folder).name in caplog.text
    assert KernelCache(folder).get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == 2


def test_an_entry_under_the_wrong_name_is_not_believed(compiler, folder):
    kernels = KernelCache(folder)
    kernels.get_or_compile(UNIT, "sm_80")
    entry(folder).rename(folder / f"{kernels.key(UNIT, 'sm_90a')}.kernel")
    assert kernels.get_or_compile(UNIT, "sm_90a").arch == "sm_90a"


@given(
    st.text(st.characters(codec="utf-8")),
    st.none() | st.binary(min_size=1).map(lambda cubin: KERNEL.machine_code._replace(cubin=cubin)),
    st.lists(st.text(st.characters(codec="utf-8"))),
)
def test_decoding_inverts_encoding(ptx, machine_code, warnings):
    kernel = KERNEL._replace(ptx=ptx, machine_code=machine_code, warnings=tuple(warnings))
    assert decode_entry(encode_entry(kernel, "key"), "key") == kernel


@given(st.data())
def test_any_changed_byte_or_truncation_is_noticed(data):
    content = bytearray(encode_entry(KERNEL, "key"))
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= data.draw(st.integers(1, 255))
    else:
        del content[place:]
    with pytest.raises(CorruptEntry):
        decode_entry(bytes(content), "key")


def test_a_process_killed_while_compiling_blocks_nobody(compiler, folder):
    compiler.seconds = 60.0
    run_and_kill(lambda: KernelCache(folder).get_or_compile(UNIT), until=lambda: compiler.compilations == 1)
    compiler.seconds = 0.0
    assert KernelCache(folder).get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == 2


def test_a_process_killed_while_writing_leaves_a_usable_cache(compiler, folder):
    def write_and_hang():
        os.replace = lambda *_: time.sleep(60)
        KernelCache(folder).get_or_compile(UNIT)

    run_and_kill(write_and_hang, until=lambda: list(folder.glob("*.tmp")))
    assert list(folder.glob("*.kernel")) == []
    assert KernelCache(folder).get_or_compile(UNIT) == KERNEL
    assert decode_entry(entry(folder).read_bytes(), entry(folder).stem) == KERNEL
    assert list(folder.glob("*.tmp")) == []


def test_a_failed_compilation_leaves_no_entry_and_no_lock(compiler, folder, monkeypatch):
    def refuse(unit, arch):
        raise CompilationError("no", log="no")

    kernels = KernelCache(folder)
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "compile", refuse)
        with pytest.raises(CompilationError):
            kernels.get_or_compile(UNIT)
    assert contents(folder) == (0, 0)
    assert kernels.get_or_compile(UNIT) == KERNEL


@pytest.mark.parametrize("obstacle", ["a file in its place", "no permission", "full disk"])
def test_a_directory_that_cannot_be_written_costs_one_warning(obstacle, compiler, tmp_path, caplog, monkeypatch):
    directory = tmp_path / "obstacle" / "cache"
    if obstacle == "a file in its place":
        directory.parent.write_text("a file")
    elif obstacle == "no permission":
        if os.geteuid() == 0:
            pytest.skip("permissions do not bind root")
        directory.parent.mkdir(mode=0o500)
    else:

        def refuse(source, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", refuse)
    kernels = KernelCache(directory)
    assert kernels.get_or_compile(UNIT) == KERNEL
    assert kernels.get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == 2
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "TILEWRIGHT_CACHE_DIR" in caplog.text
    assert contents(directory) == (0, 0)
    kernels.clear()


def test_extra_directories_are_read_and_never_written(compiler, tmp_path, caplog):
    shared, own = tmp_path / "shared", tmp_path / "own"
    KernelCache(shared).get_or_compile(UNIT)
    assert KernelCache(own, [shared]).get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == 1
    damage(entry(shared), "flipped byte")
    damaged = entry(shared).read_bytes()
    assert KernelCache(own, [shared]).get_or_compile(UNIT) == KERNEL
    assert compiler.compilations == 2
    assert entry(shared).read_bytes() == damaged
    assert not (shared / "quarantine").exists()
    assert str(entry(shared)) in caplog.text


def test_the_environment_names_the_directories(compiler, tmp_path, monkeypatch):
    names = [str(tmp_path / name) for name in ("own", "one", "two")]
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", names[0])
    monkeypatch.setenv("TILEWRIGHT_CACHE_PATH", os.pathsep.join([*names[1:], ""]))
    kernels = KernelCache()
    assert [str(path) for path in (kernels.directory, *kernels.extra_directories)] == names


def test_an_entry_is_filed_under_the_compiler_that_made_it(compiler, folder, monkeypatch):
    """The wheel's metadata promises one version, but another library is what loads."""

    def load():
        compiler.version = "13.2 at /opt/cuda/lib64/libnvrtc.so.13"

    monkeypatch.setattr(compiler, "load_nvrtc", load)
    kernels = KernelCache(folder)
    promised = kernels.key(UNIT, "sm_90a")
    assert kernels.get_or_compile(UNIT).nvrtc_version.startswith("13.2 ")
    assert entry(folder).stem == kernels.key(UNIT, "sm_90a") != promised
    compiler.version = "13.5.37"  # as a next process would begin
    assert kernels.get_or_compile(UNIT).nvrtc_version.startswith("13.2 ")
    assert compiler.compilations == 1


def test_clear_empties_the_cache_and_info_counts_it(compiler, folder):
    kernels = KernelCache(folder)
    kernels.get_or_compile(UNIT, "sm_80")
    damage(entry(folder), "empty")
    kernels.get_or_compile(UNIT, "sm_80")
    kernels.get_or_compile(UNIT, "sm_90a")
    (folder / "abandoned.tmp").write_bytes(b"half an ent")
    sizes = [path.stat().st_size for path in folder.glob("*.kernel")]
    assert (contents(folder), contents(kernels.quarantine)[0]) == ((2, sum(sizes)), 1)
    kernels.clear()
    assert contents(folder) == contents(kernels.quarantine) == (0, 0)
    assert list(folder.glob("*.tmp")) == []
    assert kernels.get_or_compile(UNIT) == KERNEL


def test_clear_spares_what_another_process_is_writing(compiler, folder):
    kernels = KernelCache(folder)
    kernels.get_or_compile(UNIT)
    temporary = folder / "busy.tmp"
    temporary.write_bytes(b"half an ent")
    with filelock.FileLock(folder / "locks" / "busy.lock"):
        kernels.clear()
        assert temporary.exists()
    kernels.clear()
    assert not temporary.exists()


def test_threads_that_build_at_once_compile_once(compiler, folder, monkeypatch):
    compiler.seconds = 0.1
    monkeypatch.setattr(cache, "default_cache", lambda: KernelCache("/dev/null/no directory"))
    monkeypatch.setattr(cache, "_built", {})
    built = []
    threads = [threading.Thread(target=lambda: built.append(cache.build(UNIT))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 8
    assert all(kernel is built[0] for kernel in built)
    assert compiler.compilations == 1
