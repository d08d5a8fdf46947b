"""`tilewright.explain`: what the planner does with a product, why, how long that takes, and what would help."""
