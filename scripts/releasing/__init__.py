"""What a release is made and tried with: the steps behind ``scripts/release``."""
