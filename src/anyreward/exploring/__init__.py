"""The loop from episodes to a certified atlas, its progress and its forecasts."""
