"""The atlas: counts with their certificate, the plans made from it, and its files."""
