"""Turn functions into commands: options from dataclasses, help texts, and `msshift.toml`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import OptionInfo

from msshift_bench.cli.config_file import apply_config
from msshift_bench.errors import UsageError

_SHORT: Mapping[type, str] = MappingProxyType(
    {bool: "", int: "N", float: "X", Path: "PATH", str: "TEXT"}
)
"""Type of an option -> its name in help texts; typer's names leave 18 of 80 columns for text."""

_NO_DEFAULTS = ("", "None", "False", str(inspect.Parameter.empty))
"""Default values, as text, that help texts omit."""

_NOT_PLAIN = re.compile(r"[0-9]_[0-9]|[^\x00-\x7f]")


def _innermost(kind: Any) -> type:
    """Return an option's element type, e.g. ``str`` for ``list[str] | None``."""
    inner = [part for part in get_args(kind) if part is not type(None)]
    return _innermost(inner[0]) if inner else kind


class _BriefHelp:
    """A command whose help text omits the types of switches and the line of --help."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, including typer's own, changed for the brief help."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperOption):
                parameter.metavar = parameter.metavar or ""
                parameter.min = parameter.max = None  # Only help texts use them.
                parameter.hidden |= parameter.name == "help"  # It would widen the first column.
        return parameters


class CommandGroup(_BriefHelp, TyperGroup):
    """A group of commands."""


class Command(_BriefHelp, TyperCommand):
    """A command that accepts numbers in plain digits only; `msshift.toml` sets its defaults."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the arguments as typer does, but first check that numbers have plain digits.

        Python also reads ``1_0`` as 10, and the digits of every script.

        Raises:
            UsageError: if a number is not written in plain digits.
        """
        hints = inspect.signature(inspect.unwrap(self.callback or print)).parameters
        typed, *_ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.params:
            name = str(parameter.name)
            value = typed.get(name) or ()
            texts = [value] if isinstance(value, str) else value
            if texts and _innermost(hints[name].annotation) in (int, float):
                wrong = next(filter(_NOT_PLAIN.search, texts), None)
                if wrong is not None:
                    raise UsageError(
                        f"{parameter.opts[0]} is {wrong!r}; write a number in plain digits, e.g. 10"
                    )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the configuration file fills in options that were not typed."""
        apply_config(ctx)
        return super().invoke(ctx)


class FlattenedCommand:
    """A function as a command: each field of its dataclass parameters becomes an option.

    The help panel of these options is the text before the colon in the dataclass's docstring.
    ``Annotated[Dataclass, "Panel"]`` replaces it; for a single option, write
    ``Annotated[Option, "Panel"]``. The signature is computed when typer asks for it: that takes a
    tenth of a command's start time.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__annotations__: dict[str, Any] = {}  # Typer reads the signature instead.

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return inspect.Signature(list(_flat_parameters(self._function)))

    def __call__(self, **typed: Any) -> None:
        """Run the function, with its dataclasses made from the typed options."""
        for name, kind in get_type_hints(self._function).items():
            if isinstance(kind, type) and is_dataclass(kind):
                typed[name] = kind(**{part.name: typed.pop(part.name) for part in fields(kind)})
        self._function(**typed)


def _flat_parameters(
    function: Callable[..., Any], panel: str | None = None
) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function, or the fields of a dataclass, for typer.

    Args:
        function: the function or the dataclass.
        panel: the help panel of parameters that name none.
    """
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        hint = parameter.annotation
        kind, notes = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
        if isinstance(kind, type) and is_dataclass(kind):
            title, colon, _ = str(kind.__doc__).partition(":")
            titles = [*notes, *([title] if colon else [])]
            yield from _flat_parameters(kind, *titles[:1])
            continue
        if notes:
            option = copy(notes[0])
            option.rich_help_panel = next(iter(notes[1:]), panel or option.rich_help_panel)
            if isinstance(option, OptionInfo):
                option.metavar = option.metavar or _SHORT[_innermost(kind)]
            default = str(parameter.default)
            # Typer would print the default on a separate line.
            if option.show_default is True and default not in _NO_DEFAULTS:
                option.help, option.show_default = f"{option.help} Default: {default}.", False
            hint = Annotated[kind, option]
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint)


def text_and_examples(function: Callable[..., None]) -> tuple[str, str]:
    """Return a docstring's text, and its examples (at least one), the end of the help text."""
    text, *examples = inspect.cleandoc(str(function.__doc__)).split("\n\nExample: ")
    lines = [" ".join(example.split()) for example in examples]
    if len(lines) == 1:
        return text, f"Example: {lines[0]}"
    return text, "\n\n".join(["Examples:", *(f"- {line}" for line in lines)])


def refuse(context: typer.Context, names: Iterable[str], what: str) -> None:
    """Check that no option was typed that conflicts with another option or input.

    Args:
        context: typer's context of the command.
        names: parameter names of the conflicting options.
        what: the option or input that they conflict with, for the message.

    Raises:
        UsageError: if an option was typed; the message lists all of them.
    """
    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    # A value from `msshift.toml` also has the source DEFAULT.
    typed = ", ".join(
        flags[name] for name, source in sources.items() if source and source.name != "DEFAULT"
    )
    if typed:
        raise UsageError(f"{typed} cannot be used with {what}; remove {typed}")


def allow_only(context: typer.Context, allowed: Collection[str], what: str) -> None:
    """Check that no option was typed except the parameters in `allowed`; see `refuse`."""
    refuse(context, (name for name in context.params if name not in allowed), what)
