"""The proof of the hardware's sums, beside a stand-in for the GPU: it notices every constant of the table."""

from dataclasses import replace

import pytest

from support.forms.sums import SUMS
from support.launches import emulate
from support.proof import EQUAL, outcome_on
from tilewright.emulator.semantics.matrices import accumulation
from tilewright.emulator.semantics.matrices.accumulation import ADDERS

SAMPLE = 9
"""One of so many forms of each kind."""


class StandIn:
    """The emulator in the place of the GPU, with another table."""

    def __init__(self, adders=None, zero_exponent=None):
        self._adders, self._zero_exponent = adders or {}, zero_exponent

    def submit(self, launch):
        """Launch at once."""
        with pytest.MonkeyPatch.context() as patch:
            for key, adder in self._adders.items():
                patch.setitem(ADDERS, key, adder)
            if self._zero_exponent is not None:
                patch.setattr(accumulation, "ZERO_EXPONENT", self._zero_exponent)
            self._result = emulate(launch, checks=False)

    def result(self):
        """The buffers after the launch."""
        return self._result


@pytest.mark.parametrize("kind", SUMS)
def test_the_same_machine_has_the_same_sums(kind):
    for form in SUMS[kind][::SAMPLE]:
        assert outcome_on(StandIn(), form) == (EQUAL, [])


def changes(adder):
    """Adders that differ in one constant."""
    yield from (replace(adder, fraction_bits=adder.fraction_bits + by) for by in (-1, 1))
    yield replace(adder, sum_bits=adder.sum_bits - 1)
    yield replace(adder, steps=3 - adder.steps, unpacked=False)
    if adder.unpacked:
        yield replace(adder, unpacked=False)


def forms_of(kind, family):
    """Those of a kind whose elements are of a family."""
    names = {"fp8": ("e4m3", "e5m2"), "f16": ("f16.f16", "shared.f16")}.get(family, (family,))
    return [form for form in SUMS[kind] if any(name in form.name for name in names)]


@pytest.mark.parametrize(
    ("key", "change"), [(key, change) for key, adder in ADDERS.items() for change in changes(adder)]
)
def test_another_constant_of_the_table_is_noticed(key, change):
    forms = forms_of(*key)
    assert len(forms) >= 4
    outcomes = (outcome_on(StandIn({key: change}), form) for form in forms)
    outcome, examples = next(each for each in outcomes if each[0] != EQUAL)
    assert outcome == "different"
    assert any("emulator" in example and "GPU" in example for example in examples)


@pytest.mark.parametrize("zero_exponent", [-134, -132])
@pytest.mark.parametrize("key", [key for key in ADDERS if key[1] in ("bf16", "tf32") and key[0] != "wmma"])
def test_another_exponent_of_zero_is_noticed(key, zero_exponent):
    forms = [form for form in forms_of(*key) if "tiny" in form.name or "tiny" in str(getattr(form, "sources", ""))]
    stand_in = StandIn(zero_exponent=zero_exponent)
    assert any(outcome_on(stand_in, form)[0] == "different" for form in forms)
