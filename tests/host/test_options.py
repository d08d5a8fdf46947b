"""What the options of several commands mean."""

import pytest

from tilewright.cli.options import hardware_of, parse_shape, require_writable, shape_of
from tilewright.dtypes import FLOATS, PRODUCTS, fp8_e4m3, parse
from tilewright.problem import ACTIVATIONS, RECIPES


def test_options_name_what_the_library_takes():
    from tilewright.cli.options import ActivationName, DTypeName, FactorName, RecipeName, ResultName

    assert [name.value for name in DTypeName] == [dtype.name for dtype in FLOATS]
    assert tuple(name.value for name in ActivationName) == ACTIVATIONS
    assert {name.value for name in FactorName} - {"fp8"} == {kind.name for pair in PRODUCTS for kind in pair}
    assert parse(FactorName.fp8, "--dtype") is fp8_e4m3
    stored = {kind for results in PRODUCTS.values() for kind in results}
    assert {name.value for name in ResultName} == {kind.name for kind in stored}
    assert [name.value for name in RecipeName] == list(RECIPES)


@pytest.mark.parametrize("text", ["64,128,256", "64x128x256", "64X128X256", "64, 128, 256", "64 128 256"])
def test_shapes_are_read(text):
    assert parse_shape(text, "--problem") == (64, 128, 256)


@pytest.mark.parametrize("text", ["4096", "4096^3", " 4096"])
def test_one_number_is_a_cube(text):
    assert parse_shape(text, "--shape") == (4096, 4096, 4096)


@pytest.mark.parametrize("text", ["", "1,2", "1,2,3,4", "1,,3", "a,b,c", "-1,2,3", "1.5,2,3", "4096^2", "-4096"])
def test_other_text_is_no_shape(text):
    with pytest.raises(ValueError, match="--problem"):
        parse_shape(text, "--problem")


def test_a_shape_is_given_whole_or_not_at_all():
    assert shape_of(None) is None
    assert shape_of([]) is None
    assert shape_of(["1", "2", "3"]) == shape_of(["1,2,3"]) == (1, 2, 3)
    with pytest.raises(ValueError, match=r"^M N K='1 2' is not a shape"):
        shape_of(["1", "2"])


def test_architectures_are_those_of_the_table():
    assert hardware_of("sm_90a").name == "H200"
    assert hardware_of("sm_80").name == "A100"


def test_other_architectures_are_those_that_nvrtc_compiles_for(monkeypatch):
    monkeypatch.setattr("tilewright.jit.compile.compilable", lambda: [75, 80, 86, 90, 100])
    assert (hardware_of("sm_86").arch, hardware_of("sm_86").smem_bytes) == ("sm_86", 101_376)
    assert (hardware_of("sm_100").arch, hardware_of("sm_100").smem_bytes) == ("sm_100", 232_448)
    for arch in ("sm_75", "sm_89", "sm_100a", "90a", ""):
        with pytest.raises(ValueError, match=f"--arch='{arch}' .*: use sm_80, sm_86, sm_90, sm_100, sm_90a$"):
            hardware_of(arch)


@pytest.mark.parametrize("option", ["--plot", "--output"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path, option):
    with pytest.raises(ValueError, match=f"{option}=.* is in a folder that does not exist: make it first"):
        require_writable(option, tmp_path / "missing" / "file.json")
    with pytest.raises(ValueError, match=f"{option}=.* cannot be written: Is a directory"):
        require_writable(option, tmp_path)
    require_writable(option, tmp_path / "file.json")
    assert not [*tmp_path.iterdir()]
    (tmp_path / "file.json").write_text("kept")
    require_writable(option, tmp_path / "file.json")
    assert (tmp_path / "file.json").read_text() == "kept"
    require_writable(option, None)
    (tmp_path / "link").symlink_to(tmp_path / "not yet")
    require_writable(option, tmp_path / "link")
    assert {path.name for path in tmp_path.iterdir()} == {"file.json", "link"}
