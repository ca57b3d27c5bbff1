"""Which version this is: read by the package, its reports, and the build."""

__all__ = ["__version__"]

__version__ = "0.1.0"
