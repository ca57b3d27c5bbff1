"""``python -m scripts.experiments``, behind ``scripts/reproduce``."""

import sys

from scripts.experiments.carrying_out import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
