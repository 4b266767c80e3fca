"""Experiments: complete runs on known models, with tables and figures.

============  ==================================================================================
`demo`        the double chain, explored once and planned for many rewards
`compare`     algorithms side by side on a known model
`sweep`       all combinations of algorithms, environments, parameters and seeds
`reproduce`   the paper's experiments: the runs and their tables
`claims`      what the paper says about its experiments, with a verdict from the tables
`report`      the figures and the HTML page of a reproduction
`jobs`        runs jobs on processes or on a Dask cluster, and keeps each result in a file
`statistics`  bootstrap intervals, and a permutation test for all pairs at once
============  ==================================================================================
"""
