"""Pure arithmetic about the machine. Runs nothing, measures nothing, and imports only what is asked and on what."""
