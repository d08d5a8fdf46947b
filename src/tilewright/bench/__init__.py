"""Everything that runs plans to time them."""
