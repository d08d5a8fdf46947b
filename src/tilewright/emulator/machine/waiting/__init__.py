"""What threads wait for: barriers, mbarriers, collectives of a warp, and polling that nothing ends."""
