"""What instructions mean: pure functions of arrays, which know no machine."""
