"""``python -m msshift_bench``: the `msshift` command, where its script is not on the path."""

from msshift_bench.cli import main

if __name__ == "__main__":
    main()
