"""Experiments: complete runs with tables and pictures.

============  ==================================================================================
`demo`        the double chain, explored once and planned for many rewards
`compare`     algorithms side by side on a known model
`sweep`       algorithms x environments x parameters x seeds, durable and on any executor
`reproduce`   the paper's experiments, with a verdict on each of its claims
`statistics`  bootstrap bands, and a permutation test for all pairs at once
============  ==================================================================================
"""
