"""What was seen: counts, the empirical model made from them, models whose transitions are known, data from elsewhere."""
