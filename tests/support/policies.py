"""When asynchronous operations complete in the tests of the emulator."""

import pytest

POLICIES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(4))]
"""As `asynchrony` and `seed` of a Device."""

each_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")
