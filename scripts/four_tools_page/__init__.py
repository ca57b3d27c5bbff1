"""The parts of `scripts/four_tools.py`: asking the tools, and writing what they say."""
