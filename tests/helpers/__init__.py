"""What several tests share: problems to test with, environments, forged files, and references in plain loops."""
