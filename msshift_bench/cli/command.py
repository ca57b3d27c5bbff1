"""From functions to commands: options out of values, help texts, numbers, and `msshift.toml`."""

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

from msshift_bench.cli.config_file import fill_in
from msshift_bench.errors import UsageError

_SHORT: Mapping[type, str] = MappingProxyType(
    {bool: "", int: "N", float: "X", Path: "PATH", str: "TEXT"}
)
"""What help texts print for an option's type; typer's names leave 18 of 80 columns to words."""

_NO_DEFAULTS = ("", "None", "False", str(inspect.Parameter.empty))
"""Defaults, as text, of which help texts say nothing."""

_ODD_DIGITS = re.compile(r"[0-9]_[0-9]|[^\x00-\x7f]")


def _innermost(kind: Any) -> type:
    """Return ``str`` for ``list[str] | None``, and so on."""
    inner = [part for part in get_args(kind) if part is not type(None)]
    return _innermost(inner[0]) if inner else kind


class _Brief:
    """What leaves room for words in its help text: no types of switches, and no line on --help."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, with those that typer adds."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperOption):
                parameter.metavar = parameter.metavar or ""
                parameter.min = parameter.max = None  # It is shown beside the type, and not read.
                parameter.hidden |= parameter.name == "help"  # It would narrow all other lines.
        return parameters


class CommandGroup(_Brief, TyperGroup):
    """A group of commands."""


class Command(_Brief, TyperCommand):
    """A command that takes plain numbers only, and what `msshift.toml` says."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse what was typed; Python's own parsers read ``1_0`` as 10, and digits of any script.

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
                odd = next(filter(_ODD_DIGITS.search, texts), None)
                if odd is not None:
                    raise UsageError(
                        f"{parameter.opts[0]} is {odd!r}; write a number in plain digits, e.g. 10"
                    )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with what was not typed from the configuration file."""
        fill_in(ctx)
        return super().invoke(ctx)


class FlattenedCommand:
    """A function as a command, which takes every field of its dataclasses as an option of its own.

    The panel of these options in the help text is what the docstring of the dataclass says before
    its colon, if it has one, or what the function says: ``Annotated[Dataclass, "Panel"]``. So it is
    for single options. The signature is worked out when typer asks for it, for it takes a tenth of
    the time in which a command starts.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__annotations__: dict[str, Any] = {}  # The signature has them.

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return inspect.Signature(list(_unfolded(self._function)))

    def __call__(self, **typed: Any) -> None:
        """Run the function, its values made of what was typed."""
        for name, kind in get_type_hints(self._function).items():
            if isinstance(kind, type) and is_dataclass(kind):
                typed[name] = kind(**{part.name: typed.pop(part.name) for part in fields(kind)})
        self._function(**typed)


def _unfolded(
    function: Callable[..., Any], panel: str | None = None
) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function, or the fields of a dataclass, as typer takes them.

    Args:
        function: the function or the dataclass.
        panel: the panel of the help text for those that name none.
    """
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        hint = parameter.annotation
        kind, notes = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
        if isinstance(kind, type) and is_dataclass(kind):
            title, colon, _ = str(kind.__doc__).partition(":")
            titles = [*notes, *([title] if colon else [])]
            yield from _unfolded(kind, *titles[:1])
            continue
        if notes:
            option = copy(notes[0])
            option.rich_help_panel = next(iter(notes[1:]), panel or option.rich_help_panel)
            if isinstance(option, OptionInfo):
                option.metavar = option.metavar or _SHORT[_innermost(kind)]
            default = str(parameter.default)
            # typer would give the default a line of its own.
            if option.show_default is True and default not in _NO_DEFAULTS:
                option.help, option.show_default = f"{option.help} Default: {default}.", False
            hint = Annotated[kind, option]
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint)


def text_and_examples(function: Callable[..., None]) -> tuple[str, str]:
    """Return what a docstring says, and its examples, which stand last in the help text."""
    text, *examples = inspect.cleandoc(str(function.__doc__)).split("\n\nExample: ")
    lines = [" ".join(example.split()) for example in examples]
    if len(lines) == 1:
        return text, f"Example: {lines[0]}"
    return text, "\n\n".join(["Examples:", *(f"- {line}" for line in lines)])


def refuse(context: typer.Context, names: Iterable[str], what: str) -> None:
    """Check that options which do not go together with something were not typed.

    Args:
        context: typer's context of the command.
        names: the names of their parameters.
        what: what they do not go together with.

    Raises:
        UsageError: if one was typed; the message names all of them.
    """
    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    # The source of a value of `msshift.toml` is the default, too.
    typed = ", ".join(
        flags[name] for name, source in sources.items() if source and source.name != "DEFAULT"
    )
    if typed:
        raise UsageError(f"{typed} and {what} do not go together; leave out {typed}")


def allow_only(context: typer.Context, taken: Collection[str], what: str) -> None:
    """Check that no option was typed but those whose parameters are taken; see `refuse`."""
    refuse(context, (name for name in context.params if name not in taken), what)
