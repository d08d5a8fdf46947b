"""The machine since Volta: its tensor cores step by step, and what the scheduler reads in each instruction."""
