"""Pure arithmetic about the machine. It runs and measures nothing, and imports only problems and hardware."""
