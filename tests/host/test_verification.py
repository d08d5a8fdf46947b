"""The record of GPU runs notices when a kernel changes after its verification."""

import json
import shutil

import pytest

from support import verification


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


def test_the_digest_depends_on_content_and_not_on_place(package):
    assert verification.kernel_digest(package) == verification.kernel_digest()


@pytest.mark.parametrize("changed", ["cuda/kernels/mma.cuh", "cuda/types.cuh", "kernels/mma.py", "jit/source.py"])
def test_a_changed_kernel_is_noticed(package, last_run, changed):
    assert verification.notice(last_run, package) is None
    (package / changed).write_text((package / changed).read_text() + "\n")
    message = verification.notice(last_run, package)
    assert "CHANGED" in message
    assert "H200" in message
    assert "make test-gpu" in message


def test_an_added_header_is_noticed_and_an_added_test_is_not(package, last_run):
    (package / "cuda" / "notes.txt").write_text("no kernel")
    (package / "jit" / "other.py").write_text("")
    assert verification.notice(last_run, package) is None
    (package / "cuda" / "more.cuh").write_text("")
    assert "CHANGED" in verification.notice(last_run, package)


def test_a_missing_record_is_said(tmp_path):
    assert "No GPU run is on record" in verification.notice(tmp_path / "missing.json")
