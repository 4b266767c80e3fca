"""Rewards: the forms they come in, expressions, files, and what an environment paid."""
