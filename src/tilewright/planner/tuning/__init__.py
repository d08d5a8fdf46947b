"""The tuner: it measures the Configs that the model ranks first for a product, and keeps the quickest in a table."""

from tilewright.planner.tuning.ensure import ensure_tuned
from tilewright.planner.tuning.search import Ranked, Settings, Tuned, tune

__all__ = ["Ranked", "Settings", "Tuned", "ensure_tuned", "tune"]
