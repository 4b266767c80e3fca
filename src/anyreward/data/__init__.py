"""The data of an exploration and the models made from them.

=============  =====================================================================================
`counts`       `Counts`: how often each transition was observed
`empirical`    the empirical model that counts estimate, for planning
`tabular`      `TabularMDP`: a model whose transition probabilities are known
`numbering`    how observations and actions are numbered, and what they are called (`spaces`)
`importers`    counts from tables of numbers and from Minari datasets
`logs`         counts from logs with names of any kind (`log_rows`: their rows; `columns`: tables and files)
`drift`        whether new data are of the same laws as old data
`evidence`     a check of the transfer evidence that counts from a file claim to have
=============  =====================================================================================
"""
