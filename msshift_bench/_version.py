"""Version of the package; its reports and the build read it here."""

__all__ = ["__version__"]

__version__ = "0.1.0"
