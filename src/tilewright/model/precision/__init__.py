"""Numbers of few bits: what formats can say, and what sums of their products lose."""
