"""Peers that multiply fp8 and int8: what they are asked, without a GPU."""

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from support.commands import in_json
from support.contenders import FakeContender, fake_machine
from tilewright.bench import Absent, Cublas, CublasLt, Quack, Shape, cublas, scaled_peers, suites
from tilewright.bench.contenders import EVERY_PEER, PEERS, PEERS_OF_8_BITS
from tilewright.bench.cublas import HeuristicResult
from tilewright.bench.scaled_peers import DeepGemm, Torch
from tilewright.hardware import A100, H200
from tilewright.measure.elements import Elements


class Tensor:
    """A tensor of which the address, the shape and the views matter."""

    def __init__(self, name, address=0):
        self.name, self.address = name, address

    def data_ptr(self):
        return self.address

    def reshape(self, shape):
        return Tensor(f"{self.name} as {shape}", self.address)

    def t(self):
        return Tensor(f"{self.name}.T", self.address)

    def clone(self, memory_format):
        return Tensor(f"{self.name} {memory_format}", self.address)


def given(text, layout="nt", m=32, n=48, k=64):
    """Inputs of one set, and the calls of torch that were made."""
    calls = []

    def scaled_mm(a, b, scale_a, scale_b, **options):
        calls.append((a.name, b.name, scale_a.name, scale_b.name, options))

    torch = SimpleNamespace(
        __version__="2.11",
        version=SimpleNamespace(cuda="13.0"),
        float32="float32",
        uint8="uint8",
        contiguous_format="in rows",
        ones=lambda shape, **options: Tensor("one"),
        empty=lambda *shape, **options: Tensor("workspace", 900),
        _scaled_mm=scaled_mm,
        _int_mm=lambda a, b, out: calls.append((a.name, b.name, out.name)),
        cuda=SimpleNamespace(
            current_blas_handle=lambda: 77,
            current_stream=lambda: SimpleNamespace(cuda_stream=88),
            synchronize=lambda device: None,
        ),
    )
    elements = Elements.parse(text)
    scales = {"scale_a": Tensor("scale_a", 400), "scale_b": Tensor("scale_b", 500)} if elements.recipe else {}
    made = SimpleNamespace(
        torch=torch, shape=Shape(m, n, k, text, layout), elements=elements, device=0, scales=scales, hardware=H200,
        sets=((Tensor("a", 100), Tensor("b", 200), Tensor("out", 300)),), type_of=lambda kind: kind.name,
        work=lambda launch: SimpleNamespace(run=lambda times: launch(0) or 1.0),
    )  # fmt: skip
    return made, calls


@pytest.mark.parametrize(
    ("text", "scales", "fast"),
    [
        ("fp8_e4m3", ("one", "one"), False),
        ("fp8_e4m3 by fp8_e5m2 row", ("scale_a", "scale_b"), False),
        ("fp8_e4m3 tensor fast -> fp16", ("scale_a as ()", "scale_b as ()"), True),
    ],
)
def test_torch_is_given_the_scales_and_the_accumulation_mode(text, scales, fast):
    inputs, calls = given(text)
    Torch().prepare(inputs).launch(0)
    ((a, b, scale_a, scale_b, options),) = calls
    assert (a, b, scale_a, scale_b) == ("a", "b", *scales)
    assert (options["use_fast_accum"], options["out_dtype"]) == (fast, inputs.elements.out.name)
    assert options["out"].name == "out"


def test_torch_multiplies_int8_into_int32_alone():
    inputs, calls = given("int8")
    Torch().prepare(inputs).launch(0)
    assert calls == [("a", "b", "out")]
    for text, layout, why in (
        ("int8 row", "nt", "without scales"),
        ("int8 -> fp32", "nt", "into int32 alone"),
        ("fp8_e4m3", "nn", "the layout is nn: use nt"),
        ("bf16", "nt", "use cublas"),
    ):
        with pytest.raises(Absent, match=why):
            Torch().prepare(given(text, layout)[0])


@pytest.mark.parametrize("peer", [Cublas, Quack])
def test_peers_of_plain_products_take_no_others(peer):
    for text in ("fp8_e4m3", "int8 row", "bf16 -> fp32"):
        with pytest.raises(Absent, match=f"and not for {text}"):
            peer().prepare(given(text)[0])


@pytest.mark.parametrize("layout", ["ss", "st", "ns"])
@pytest.mark.parametrize(("peer", "text"), [(Cublas, "int8"), (CublasLt, "int8"), (CublasLt, "bf16"), (Quack, "bf16")])
def test_peers_that_neither_read_nor_copy_strided_operands_are_absent(peer, text, layout):
    with pytest.raises(Absent, match=f"the layout is {layout}: use cublas, or torch for int8"):
        peer().prepare(given(text, layout)[0])


SCALED = "fp8_e4m3 1x128_128x128"


def test_deepgemm_gets_scales_of_b_by_rows_of_its_weight(monkeypatch):
    calls, overlap = [], []
    library = SimpleNamespace(fp8_gemm_nt=lambda *pairs: calls.append(pairs), set_pdl=overlap.append)
    monkeypatch.setattr(scaled_peers, "imported", lambda *names: library)
    monkeypatch.setattr(scaled_peers, "version", lambda package: "2.6.1")
    inputs, _ = given(SCALED)
    DeepGemm().prepare(inputs).launch(0)
    (((a, scale_a), (b, scale_b), out),) = calls
    assert [each.name for each in (a, scale_a, b, scale_b, out)] == [
        "a", "scale_a", "b.T", "scale_b.T in rows", "out",
    ]  # fmt: skip
    assert overlap == [True]
    del library.set_pdl
    DeepGemm().prepare(inputs).launch(0)
    assert len(calls) == 2


def test_deepgemm_says_which_products_it_does_not_take():
    for inputs, why in (
        (given("fp8_e4m3 row")[0], "with --recipe 1x128_128x128"),
        (given(f"{SCALED} fast")[0], "with --recipe 1x128_128x128"),
        (given(SCALED, "nn")[0], "in nt"),
        (given(SCALED, n=44)[0], "make n a multiple of 8 and k one of 16; the product is 32x44x64"),
        (given(SCALED, k=72)[0], "make n a multiple of 8 and k one of 16; the product is 32x48x72"),
        (SimpleNamespace(**{**vars(given(SCALED)[0]), "hardware": A100}), "on Hopper alone, and this is A100"),
    ):
        with pytest.raises(Absent, match=why):
            DeepGemm().prepare(inputs)


def test_deepgemm_is_installed_from_its_repository(monkeypatch):
    monkeypatch.setitem(sys.modules, "deep_gemm", None)
    with pytest.raises(Absent, match=r"^DeepGEMM is not installed: pip install --no-build-isolation git\+https://"):
        DeepGemm().prepare(given(SCALED)[0])


class CublasDouble:
    """A library of cuBLAS that notes what it is asked, and proposes three algorithms."""

    last: Any

    def __init__(self, name, torch):
        self.calls, self.attributes = [], {}
        CublasDouble.last = self

    def __getattr__(self, function):
        return lambda *arguments: self.calls.append((function, [plain(each) for each in arguments]))

    def cublasLtMatmulDescSetAttribute(self, operation, attribute, value, size):
        self.attributes[attribute] = value._obj.value
        assert size.value == ctypes.sizeof(value._obj)

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments):
        found, count = arguments[8], arguments[9]._obj
        count.value = 3
        for number in range(3):
            found[number].algorithm[0] = number + 1
            found[number].state = 15 if number == 0 else 0


def plain(argument):
    """The value of an argument of ctypes, followed if it is a pointer."""
    argument = getattr(argument, "_obj", argument)
    return getattr(argument, "value", argument)


@pytest.fixture
def library(monkeypatch):
    """The library that the peers then load."""
    monkeypatch.setattr(cublas, "Library", CublasDouble)
    return CublasDouble


@pytest.mark.parametrize(
    ("layout", "turns", "leading"), [("nt", (1, 0), (64, 64)), ("nn", (0, 0), (48, 64)), ("tt", (1, 1), (64, 32))]
)
def test_cublas_multiplies_the_transposed_product_of_int8(library, layout, turns, leading):
    inputs, _ = given("int8", layout)
    Cublas().prepare(inputs).launch(0)
    ((function, arguments),) = library.last.calls
    assert function == "cublasGemmEx"
    turned, leadings = tuple(arguments[1:3]), (arguments[9], arguments[12])
    assert (turned, leadings) == (turns, leading)
    rest = [each for index, each in enumerate(arguments) if index not in (1, 2, 9, 12)]
    assert rest == [77, 48, 32, 64, 1, 200, 3, 100, 3, 0, 300, 10, 48, 72, -1]


def test_cublaslt_is_told_the_scales_of_rows_and_keeps_the_quickest_algorithm(library, monkeypatch):
    inputs, _ = given("fp8_e4m3 by fp8_e5m2 row fast")
    times = iter((3.0, 1.0))
    monkeypatch.setattr(cublas._Product, "seconds", lambda self, algorithm: next(times))
    prepared = CublasLt().prepare(inputs)
    double = library.last
    assert double.attributes == {3: 1, 4: 0, 25: 1, 31: 3, 32: 3, 17: 500, 18: 400}
    layouts = [arguments[1:] for function, arguments in double.calls if function == "cublasLtMatrixLayoutCreate"]
    assert layouts == [[29, 64, 48, 64], [28, 64, 32, 64], [14, 48, 32, 48]]
    double.calls.clear()
    prepared.launch(0)
    ((function, arguments),) = double.calls
    assert function == "cublasLtMatmul"
    assert [arguments[index] for index in (2, 3, 5, 7, 8, 10)] == [1.0, 200, 100, 0.0, 300, 300]
    assert arguments[12][0] == 3  # of the two that are supported, the second was quicker
    assert arguments[13:] == [900, cublas.WORKSPACE_BYTES, 88]
    again = CublasLt().prepare(inputs, prepared.choice)
    assert again.choice == prepared.choice
    assert HeuristicResult.from_buffer_copy(bytes.fromhex(prepared.choice)).algorithm[0] == 3
    double = library.last
    again.release()
    assert [function for function, _ in double.calls][-1] == "cublasLtDestroy"


def test_cublaslt_adds_int8_in_int32_and_has_no_mode_for_it(library):
    inputs, _ = given("int8")
    CublasLt().prepare(inputs)
    double = library.last
    assert double.attributes == {3: 1, 4: 0}
    (description,) = [arguments for function, arguments in double.calls if function == "cublasLtMatmulDescCreate"]
    assert description[1:] == [72, 10]
    for text, m, why in (("int8 row", 32, "without scales"), ("fp8_e4m3 1x128_1x128", 30, "m is 30: make it")):
        with pytest.raises(Absent, match=why):
            CublasLt().prepare(given(text, m=m)[0])


@pytest.mark.parametrize(
    ("recipe", "modes"),
    [("tensor", {}), ("1x128_128x128", {31: 5, 32: 4}), ("1x128_1x128", {31: 4, 32: 4})],
)
def test_cublaslt_is_told_what_each_scale_is_for(library, recipe, modes):
    CublasLt().prepare(given(f"fp8_e4m3 {recipe}")[0])
    assert library.last.attributes == {3: 1, 4: 0, 25: 0, 17: 500, 18: 400} | modes


def test_a_product_that_cublaslt_does_not_take_is_absent(library, monkeypatch):
    def refuse(self, *arguments):
        raise RuntimeError("cublasLtMatmulAlgoGetHeuristic returned 15")

    monkeypatch.setattr(CublasDouble, "cublasLtMatmulAlgoGetHeuristic", refuse)
    with pytest.raises(Absent, match="cuBLASLt has no algorithm for 32x48x64 fp8_e4m3 nn"):
        CublasLt().prepare(given("fp8_e4m3", "nn")[0])


def test_a_library_of_cublas_that_is_missing_is_absent_and_its_faults_are_errors(monkeypatch):
    torch = SimpleNamespace(version=SimpleNamespace(cuda="13.0"))

    def load(name):
        assert name == "libcublas.so.13"
        return SimpleNamespace(good=lambda: 0, bad=lambda: 7)

    monkeypatch.setattr(ctypes, "CDLL", load)
    library = cublas.Library("cublas", torch)
    library.good()
    with pytest.raises(RuntimeError, match="bad returned 7"):
        library.bad()

    def missing(name):
        raise OSError(f"{name}: cannot open")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(Absent, match=r"cublasLt cannot be loaded: libcublasLt\.so\.13"):
        cublas.Library("cublasLt", torch)


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ((), {"fp8_e4m3 row fast", "int8"}),
        (("--out-dtype", "bf16"), {"fp8_e4m3 row fast", "int8 -> bf16"}),
        (("--dtype", "fp8_e4m3", "--recipe", "tensor", "--fast-accumulation"), {"fp8_e4m3 tensor fast"}),
        (("--dtype", "fp8_e5m2", "--b-dtype", "fp8_e4m3"), {"fp8_e5m2 by fp8_e4m3"}),
        (("--dtype", "int8"), {"int8"}),
    ],
)
def test_options_change_the_elements_of_a_suite_and_a_dtype_replaces_them(monkeypatch, tmp_path, options, texts):
    known = ("tilewright", "torch", "cublaslt")
    fake_machine(monkeypatch, {name: lambda name=name: FakeContender(name) for name in known})
    suite = tmp_path / "mine.toml"
    suite.write_text('dtype = ["fp8_e4m3 row fast", "int8"]\n[[shapes]]\nm = [16, 32]\nn = 16\nk = 32\n')
    record = in_json("bench", suite, *options, "--time-limit", 0, "--protocol", "burst", "--rounds", 1)
    assert {shape["dtype"] for shape in record["shapes"]} == texts
    assert record["contenders"] == list(known)
    assert record["baseline"] == "torch"


def test_products_of_8_bits_have_peers_of_their_own(monkeypatch):
    made = {name: lambda name=name: FakeContender(name) for name in (*EVERY_PEER, "tilewright")}
    fake_machine(monkeypatch, made)
    quick = ("--protocol", "burst", "--rounds", 1)
    record = in_json("bench", "--shape", "512", "--dtype", "int8", *quick)
    assert record["contenders"] == ["tilewright", *PEERS_OF_8_BITS]
    assert record["baseline"] == "torch"
    record = in_json("bench", "llama-7b", "--dtype", "fp8_e4m3", "--time-limit", 0, *quick)
    assert record["contenders"] == list(suites.USUAL_OF_8_BITS)
    record = in_json("bench", "--shape", "512", *quick)
    assert (record["contenders"], record["baseline"]) == (["tilewright", *PEERS], "cublas")
