"""Playing in environments: opening them, calling them, and playing a fixed policy."""
