"""Rewards: the forms in which they can be given, expressions, files, and rewards observed in an environment.

===============  ===================================================================================
`forms`          every accepted form of a reward, turned into arrays: start here
`expressions`    rewards written as text, such as `"state == 30"`
`terms`          sums of named terms (`combining`: sums of rewards as arrays)
`files`          rewards from CSV, JSON and NumPy files
`observed`       the rewards that an environment paid during exploration
===============  ===================================================================================
"""
