"""The products of language models: which ones a config.json asks for, and how long they take on a chip."""
