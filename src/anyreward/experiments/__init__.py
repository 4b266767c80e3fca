"""Experiments: complete runs with pictures.

==========  =============================================================
`demo`      the double chain, explored once and planned for many rewards
==========  =============================================================
"""
