"""The kernels whose counters are compared with hardware run and are counted here."""

import pytest

from support.profiles import PROFILES, Snippet, counted_aside

SAMPLE = [profile for profile in PROFILES if isinstance(profile, Snippet)]
SAMPLE += [profile for profile in PROFILES if not isinstance(profile, Snippet)][::9]


def test_every_profile_has_a_name_of_its_own():
    assert len({profile.name for profile in PROFILES}) == len(PROFILES)


@pytest.mark.parametrize("profile", SAMPLE, ids=lambda profile: profile.name)
def test_a_profile_is_counted(profile):
    counters = profile.count().as_dict()
    requests, sectors = counters["global_requests"], counters["global_sectors"]
    assert requests.get("ld", 0) + counters["tma_read_bytes"] > 0
    assert sectors.get("st", 0) >= requests.get("st", 0)
    assert sectors.get("st", 0) + counters["tma_stored_bytes"] > 0


def test_profiles_counted_in_other_processes_have_the_same_counters():
    profiles = (PROFILES[0], SAMPLE[-1])
    with counted_aside(profiles, processes=2) as counted:
        assert [counted(profile) for profile in profiles] == [profile.count().as_dict() for profile in profiles]
