"""An entry becomes a program: basic blocks as Python functions, and facts about them that hold before they run."""
