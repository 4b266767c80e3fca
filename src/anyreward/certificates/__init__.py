"""Certificates: what the data prove about plans made from them, and with which probability.

===============  ===================================================================================================
`certificate`    `Certificate` and `certify`: an accuracy epsilon, with its assumptions, that can be checked again
`bounds`         the error bounds that epsilon comes from: `TightBound` and `PaperBound`
`thresholds`     the paper's confidence thresholds, with the event on which they hold
`error_index`    the backward recursion of an error bound on counts, with its greedy policy
`calibrated`     the bound for amounts of data that were fixed beforehand; `calibrated_laws` for laws of a structure
`factored`       `Factored`: certificates for states of many parts, without joint states (`decoupled` has the bound)
`intervals`      robust planning: lower and upper values of one reward over all models that the data allow
`betting`        the mean of bounded values, such as the returns of episodes, at all times at once
===============  ===================================================================================================
"""
