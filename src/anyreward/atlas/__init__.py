"""The atlas: the result of an exploration, the plans made from it, and its files.

=============  =================================================================================
`atlas`        `Atlas`, `Plan` and `Interval`: plan, evaluate, merge and save
`format`       `load`, and what is written into an atlas file and checked when it is read
`container`    the file itself: a Parquet table with sealed arrays that are read without Parquet
`constrained`  plans whose costs are certain to be within limits
`automata`     goals as automata that read the states of an episode
`goals`        policies that reach or avoid, with certified probabilities and numbers of steps
`tradeoff`     the certified trade-off of two rewards
`watching`     whether an environment is still the one that was explored
`exporting`    models for other checkers, as DRN files
`umb`          ... and as UMB files
`recording`    the episodes themselves, if they were recorded
=============  =================================================================================
"""
