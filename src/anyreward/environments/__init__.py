"""What is explored: known models, and Gymnasium environments as processes with numbered states."""
