"""Names of kernels in C++: what c++filt says of them, without return types and parameters."""

import numpy as np
import pytest

from tilewright.checking.names import in_cpp, listed


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("scale", "scale"),
        ("_Z5scalePf", "scale"),
        ("_Z4scanILi3EEvPf", "scan<3>"),
        ("_Z4scanILin3ELb1ELj4EEvPf", "scan<-3, true, 4>"),
        ("_ZN4mine5otherEiPf", "mine::other"),
        ("_Z4scanI6__halfS0_EvPT_", "scan<__half, __half>"),
        ("_Z1kIN4mine1TIiLb1EEES2_EvT_", "k<mine::T<int, true>, mine::T<int, true>>"),
        ("_Z1kIPKfNSt3fooIiEEEvT_", "k<const float*, std::foo<int>>"),
        ("_ZN1a1bIfE1cILj4EEEvv", "a::b<float>::c<4>"),
        ("_Z1kIJifdEEvDpT_", "k<int, float, double>"),
        ("_Z1kIJEEvDpT_", "k<>"),
        ("_Z1kIL4Mode2EEvv", "k<(Mode)2>"),
        (
            "_ZN7cutlass6KernelINS_4gemm4GemmIfNS1_2OpELi3EEEEEvNT_6ParamsE",
            "cutlass::Kernel<cutlass::gemm::Gemm<float, cutlass::gemm::Op, 3>>",
        ),
    ],
)
def test_names(mangled, name):
    assert in_cpp(mangled) == name


@pytest.mark.parametrize(
    "name",
    ["_Z", "_Z9", "_Z3ab", "_Z1kIS_", "_Z1kIS3_EvT_", "_ZN", "_ZN1a", "_Z1kI", "_Z1kILi", "_Z1kILf3f800000EEvv",
     "_Z1kIA3_iE", "_ZN12_GLOBAL__N_11kEv", "_Z1k" + "I1a" * 3000, "_Z99999999999999999999x", "_Z\u0663abc"],
)  # fmt: skip
def test_what_is_not_understood_stays(name):
    assert in_cpp(name) == name


def test_abbreviations_do_not_grow_without_end():
    levels = [f"1aIS{np.base_repr(2 * level + 1, 36)}_S{np.base_repr(2 * level + 1, 36)}_E" for level in range(60)]
    short, long = (f"_Z1kI1aIiiE{''.join(levels[:count])}Evv" for count in (3, 60))
    assert in_cpp(short).count("int") == 2 + 4 + 8 + 16
    assert in_cpp(long) == long
    short, long = (f"_ZN1aI900{'b' * 900}E{'IS0_E' * count}E" for count in (5, 100))
    assert in_cpp(short).count("b" * 900) == 6
    assert in_cpp(long) == long


def test_names_that_are_the_same_in_cpp_stay_apart():
    assert listed(["_Z3addi", "_Z3addf", "_Z3subf"]) == ["_Z3addi", "_Z3addf", "sub"]
