"""`tilewright report`: what the models, the emulator and records say of a product, as one page without network."""
