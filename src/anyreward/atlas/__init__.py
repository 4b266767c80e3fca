"""The atlas: the result of an exploration, the plans made from it, and its files.

=============  =================================================================================
`atlas`        `Atlas`, `Plan` and `Interval`: plan, evaluate, merge and save
`format`       `load`, and what is written into an atlas file and checked when it is read
`container`    the file itself: a Parquet table with sealed arrays that are read without Parquet
`recording`    the episodes themselves, if they were recorded
=============  =================================================================================
"""
