"""What can be certified from counts: thresholds, bounds, certificates, intervals for one reward."""
