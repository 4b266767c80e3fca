"""The data of an exploration and the models made from them.

=============  =====================================================================================
`counts`       `Counts`: how often each transition was observed
`empirical`    the empirical model that counts estimate, for planning
`tabular`      `TabularMDP`: a model whose transition probabilities are known
`importers`    counts from data frames and Minari datasets, and recorded episodes as Minari datasets
`evidence`     a check of the transfer evidence that counts from a file claim to have
=============  =====================================================================================
"""
