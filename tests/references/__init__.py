"""Tests of the slow references that other tests compare with."""
