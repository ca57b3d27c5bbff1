"""Commands: how their help texts are laid out, and that they fill in what `msshift.toml` says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command_name

from msshift_bench.errors import UsageError

__all__ = ["Command", "CommandGroup", "in_panels", "lay_out", "panels_in_order", "with_called"]

Panels = Mapping[str, Sequence[str]]
"""Title -> the parameters of the command's function whose options it holds."""

_SHORT: Mapping[type, str] = MappingProxyType(
    {bool: "", int: "N", float: "X", Path: "PATH", str: "TEXT"}
)
"""What help texts print for an option's type; typer's names leave 18 of 80 columns to words."""


_ODD_DIGITS = re.compile(r"[0-9]_[0-9]|[^\x00-\x7f]")


class Command(TyperCommand):
    """A command whose help text leaves room for words on 80 columns.

    Attributes:
        panels: the panels of its options.
    """

    panels: ClassVar[Panels] = MappingProxyType({})

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse what was typed; Python's own parsers read ``1_0`` as 10, and digits of any script.

        Raises:
            UsageError: if a number is not written in plain digits.
        """
        typed, *_ = self.make_parser(ctx).parse_args(args=list(args))
        for name, value in typed.items():
            texts = value if isinstance(value, list | tuple) else [value]
            odd = [text for text in texts if isinstance(text, str) and _ODD_DIGITS.search(text)]
            if odd and _is_number(self, name):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} is {odd[0]!r}; write a number in plain digits, e.g. 10")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with what was not typed from the configuration file."""
        from msshift_bench.cli.config_file import fill_in

        with fill_in(ctx):
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help text."""
        _shorten_types(self.get_params(ctx), _types(self))
        titles = {name: title for title, names in self.panels.items() for name in names}
        for parameter in self.params:
            if isinstance(parameter, TyperOption) and parameter.name in titles:
                parameter.rich_help_panel = titles[parameter.name]
        super().format_help(ctx, formatter)


class CommandGroup(TyperGroup):
    """A group of commands; its help text lists their panels in a given order."""

    order: ClassVar[Sequence[str]] = ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help text."""
        _shorten_types(self.get_params(ctx), {})
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, panel by panel."""
        names = list(super().list_commands(ctx))
        commands: Mapping[str, Any] = self.commands
        if self.order:
            names.sort(key=lambda name: self.order.index(commands[name].rich_help_panel))
        return names


def _types(command: TyperCommand) -> dict[str, Any]:
    return get_type_hints(inspect.unwrap(command.callback)) if command.callback else {}


def _is_number(command: TyperCommand, name: str) -> bool:
    return _innermost(_types(command).get(name, str)) in (int, float)


def _shorten_types(parameters: Iterable[Any], types: Mapping[str, Any]) -> None:
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.metavar is None:
            parameter.metavar = _SHORT[_innermost(types.get(parameter.name, bool))]


def _innermost(kind: Any) -> type:
    """Return ``str`` for ``list[str] | None``, and so on."""
    inner = [part for part in get_args(kind) if part is not type(None)]
    return _innermost(inner[0]) if inner else kind


def with_called(app: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """Return an app with only those commands that the arguments may call, if there are any.

    To make the parser of every command takes longer than to parse a short run.

    Args:
        app: the app; it stays as it is.
        arguments: what was typed after the app's name.
    """
    word = next(iter(arguments), "")
    commands = [
        one
        for one in app.registered_commands
        if one.callback and (one.name or get_command_name(one.callback.__name__)) == word
    ]
    groups = [one for one in app.registered_groups if one.name == word]
    if not (commands or groups):
        return app
    called = copy(app)
    called.registered_commands = commands
    called.registered_groups = groups
    return called


def in_panels(panels: Panels) -> type[Command]:
    """Return the class of a command whose options stand in panels; those of no panel come first."""
    return type("Command", (Command,), {"panels": panels})


def panels_in_order(panels: Iterable[str]) -> type[CommandGroup]:
    """Return the class of a group whose commands stand in panels, in this order."""
    return type("CommandGroup", (CommandGroup,), {"order": tuple(panels)})


def lay_out(app: typer.Typer, panel: str | None = None) -> None:
    """Lay out the commands that an app has by now, and those of its groups.

    Args:
        app: the app.
        panel: the panel of the app's help text for those that are in none yet.
    """
    for command in app.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = Command
    for group in app.registered_groups:
        group.cls = CommandGroup
        if group.typer_instance is not None:
            lay_out(group.typer_instance)
    everything: list[Any] = [*app.registered_commands, *app.registered_groups]
    for listed in everything:
        if panel is not None and not isinstance(listed.rich_help_panel, str):
            listed.rich_help_panel = panel
