"""Records of `tilewright bench` as charts."""
