"""The record of GPU runs notices when a kernel changes after its verification."""

import json
import shutil
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from support import verification
from tilewright.jit.source import cuda_code


@pytest.fixture
def package(tmp_path):
    """A copy of what the digest covers."""
    copy = tmp_path / "tilewright"
    for folder in ("cuda", "kernels", "jit"):
        shutil.copytree(verification.PACKAGE / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def last_run(tmp_path):
    path = tmp_path / "gpu_verification.json"
    content = verification.record("H200", "CUDA 13.0", "13.0", "pytest tests/gpu", 60)
    path.write_text(json.dumps(content))
    return path


def test_a_record_names_the_element_types(monkeypatch):
    monkeypatch.setitem(verification.verified_dtypes, "mma", {"int8", "bf16"})
    assert verification.record("H200", "CUDA 13.0", "13.0", "pytest", 60)["dtypes"] == {"mma": ["bf16", "int8"]}


def test_processes_that_share_the_cases_add_up(monkeypatch):
    monkeypatch.setattr(verification, "verified", Counter({"mma": 200}))
    monkeypatch.setattr(verification, "verified_dtypes", defaultdict(set, {"mma": {"bf16"}}))
    another = {"cases": {"mma": 400, "simt": 200}, "dtypes": {"mma": ["int8"], "simt": ["fp32"]}}
    verification.merge(**another)
    assert verification.outcome() == {
        "cases": {"mma": 600, "simt": 200},
        "dtypes": {"mma": ["bf16", "int8"], "simt": ["fp32"]},
    }


def test_the_digest_depends_on_content_and_not_on_place(package):
    assert verification.kernel_digest(package) == verification.kernel_digest()


@pytest.mark.parametrize("changed", ["cuda/kernels/mma.cuh", "cuda/types.cuh", "kernels/mma.py", "jit/source.py"])
def test_a_changed_kernel_is_noticed(package, last_run, changed):
    assert verification.notice(last_run, package) is None
    (package / changed).write_text((package / changed).read_text() + "int\n")
    message = verification.notice(last_run, package)
    assert "CHANGED" in message
    assert "H200" in message
    assert "make test-gpu" in message


@pytest.mark.parametrize(
    ("changed", "comment"),
    [
        ("cuda/types.cuh", '\n// a "comment\n/* and another\n*/'),
        ("cuda/types.cuh", "\n\n   \n"),
        ("kernels/mma.py", "\n# a comment\n"),
        ("jit/source.py", '\n"""A docstring,\nof two lines."""  # and a comment\n'),
    ],
)
def test_a_comment_or_a_docstring_does_not_change_a_kernel(package, last_run, changed, comment):
    (package / changed).write_text((package / changed).read_text() + comment)
    assert verification.notice(last_run, package) is None


def test_strings_that_look_like_comments_are_code():
    assert cuda_code('asm("// %0 /*"); // %1\n') == 'asm("// %0 /*");  \n'
    assert verification.python_code('x = "# 1"  # 2\ny = """3"""') == 'x = "# 1"  \ny = """3"""'


def test_an_added_header_is_noticed_and_an_added_test_is_not(package, last_run):
    (package / "cuda" / "notes.txt").write_text("no kernel")
    (package / "jit" / "other.py").write_text("")
    assert verification.notice(last_run, package) is None
    (package / "cuda" / "more.cuh").write_text("")
    assert "CHANGED" in verification.notice(last_run, package)


def test_a_missing_record_is_said(tmp_path):
    assert "No GPU run is on record" in verification.notice(tmp_path / "missing.json")


def test_only_a_run_of_all_cases_of_all_kernels_is_complete(monkeypatch):
    full = Counter(mma=verification.CASES_PER_KERNEL, simt=verification.CASES_PER_KERNEL)
    monkeypatch.setattr(verification, "verified", full)
    assert verification.incomplete(["mma", "simt"]) is None
    assert "0 of 2000 cases of wgmma" in verification.incomplete(["mma", "simt", "wgmma"])
    full["mma"] -= 1
    assert "1999 of 2000 cases of mma" in verification.incomplete(["mma", "simt"])


def test_a_run_of_a_part_records_nothing_and_says_so(tmp_path):
    path = tmp_path / "record.json"
    part = [verification.ROOT / "tests/host/test_problem.py", "--record", path, "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, "-m", "pytest", *part], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Nothing is recorded, since a part has run: 0 of 2000 cases of wgmma" in done.stdout
    assert not path.exists()
