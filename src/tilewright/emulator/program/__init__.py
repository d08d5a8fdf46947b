"""An entry becomes a program: basic blocks as Python functions, and what is known of them before they run."""
