"""What `tilewright.explain` says would help: changes that gain, each by what it takes when it is planned."""

import pytest

import tilewright as tw
from support.explained import explained, stored
from tilewright.kernels.wgmma.config import WgmmaConfig


def test_a_remedy_takes_the_time_that_it_promises():
    found = explained(2047, 2049, 2051)
    (best,) = (each for each in found.remedies if "multiples of 128 bytes" in each.change)
    a, b = tw.spec((2047, 2051), "bf16", (2112, 1)), tw.spec((2051, 2049), "bf16", (1, 2112))
    out = tw.spec((2047, 2049), "bf16", (2112, 1))
    padded = tw.explain(a, b, out=out, gpu="H200")
    assert padded.time.seconds == pytest.approx(best.seconds)
    assert best.gain == pytest.approx(1 - padded.time.seconds / found.time.seconds)
    assert "copies" in found.time.parts
    assert "copies" not in padded.time.parts


@pytest.mark.parametrize("strides", [(8192, 2), (-4096, 1), (0, 1), (4096, 1)])
def test_a_batch_or_more_rows_keep_the_strides_that_cost(strides):
    a, b = tw.spec((4096, 4096), "bf16", strides), tw.spec((4096, 4096), "bf16", (2, 8192))
    found = {remedy.change: remedy for remedy in tw.explain(a, b, gpu="H200").remedies}
    b2 = tw.spec((2, 4096, 4096), "bf16", (4096 * 8192, 2, 8192))
    a2 = tw.spec((2, 4096, 4096), "bf16", (max(4096 * abs(strides[0]), 4096), *strides))
    batch = tw.explain(a2, b2, gpu="H200").time
    assert found["multiply two such products in each call, as a batch"].seconds == pytest.approx(batch.seconds / 2)
    twice = tw.explain(tw.spec((8192, 4096), "bf16", strides), b, gpu="H200").time
    assert found["multiply twice the rows in half the calls"].seconds == pytest.approx(twice.seconds / 2)
    (best,) = (each for change, each in found.items() if "with one stride of 1" in change)
    assert best.seconds == pytest.approx(explained(4096, 4096, 4096).time.seconds)
    assert not any("layout" in change and "rounds" not in change for change in found)


def test_columns_of_more_rows_lie_further_apart():
    (twice,) = (each for each in explained(512, 512, 512, "fp16", "tn").remedies if "twice the rows" in each.change)
    assert twice.seconds == pytest.approx(explained(1024, 512, 512, "fp16", "tn").time.seconds / 2)


def test_of_like_changes_the_best_alone_is_told():
    changes = [remedy.change for remedy in explained(1, 4096, 4095, gpu="H100", batch_invariant=True).remedies]
    assert "let batch_invariant be False" in changes
    assert sum("pad k" in change for change in changes) == 1
    assert sum("in layout" in change for change in changes) == 1


def test_remedies_are_ordered_and_gain():
    gains = [remedy.gain for remedy in explained(300, 200, 1000, "fp32", "nn").remedies]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 0
    assert "bf16" in explained(300, 200, 1000, "fp32", "nn").remedies[0].change


def test_what_a_better_config_gains_is_no_gain_of_other_changes():
    bad = WgmmaConfig(64, 64, 4, epilogue="direct", overlap=False)
    chosen, asked = (explained(1024, 1024, 1024, config=config) for config in (None, bad))
    leave, *others = asked.remedies
    assert leave.change == "leave kernel and config to the planner"
    assert leave.seconds == pytest.approx(chosen.time.seconds)
    assert [each[:2] for each in others] == [(f"do so, and {change}", time) for change, time, _ in chosen.remedies]
    assert asked.free_rows == chosen.free_rows
    assert not any("planner" in remedy.change for remedy in chosen.remedies)


def test_smaller_elements_help_by_what_their_product_takes():
    (remedy,) = (each for each in explained(4096, 4096, 4096).remedies if "fp8" in each.change)
    a, b = stored(4096, 4096, "fp8_e4m3", "n"), stored(4096, 4096, "fp8_e4m3", "t")
    assert tw.explain(a, b, gpu="H200").time.seconds == pytest.approx(remedy.seconds)


def test_aligned_operands_are_not_told_to_align():
    assert not any("begin the rows" in remedy.change for remedy in explained(2048, 2048, 2048).remedies)


@pytest.mark.parametrize(("dtype", "taken"), [("fp8_e4m3", "bf16"), ("int8", None)])
def test_results_are_only_advised_in_types_that_a_product_has(dtype, taken):
    a, b = tw.spec((8192, 256), dtype), tw.spec((256, 8192), dtype, (1, 256))
    changes = [remedy.change for remedy in tw.explain(a, b, out_dtype="fp32", gpu="H200").remedies]
    assert [change for change in changes if "take the result" in change] == (
        [f"take the result in {taken}"] if taken else []
    )
