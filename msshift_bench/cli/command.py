"""From functions to commands: options out of values, help texts, numbers, and `msshift.toml`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import OptionInfo

from msshift_bench.errors import UsageError

_SHORT: Mapping[type, str] = MappingProxyType(
    {bool: "", int: "N", float: "X", Path: "PATH", str: "TEXT"}
)
"""What help texts print for an option's type; typer's names leave 18 of 80 columns to words."""

_ODD_DIGITS = re.compile(r"[0-9]_[0-9]|[^\x00-\x7f]")


def _innermost(kind: Any) -> type:
    """Return ``str`` for ``list[str] | None``, and so on."""
    inner = [part for part in get_args(kind) if part is not type(None)]
    return _innermost(inner[0]) if inner else kind


class _Brief:
    """What shows no type of a switch in its help text."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, with those that typer adds."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperOption) and parameter.metavar is None:
                parameter.metavar = ""
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
        types = get_type_hints(inspect.unwrap(self.callback)) if self.callback else {}
        typed, *_ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.params:
            value = typed.get(str(parameter.name))
            texts = value if isinstance(value, list | tuple) else [value]
            odd = [text for text in texts if isinstance(text, str) and _ODD_DIGITS.search(text)]
            if odd and _innermost(types.get(parameter.name)) in (int, float):
                raise UsageError(
                    f"{parameter.opts[0]} is {odd[0]!r}; write a number in plain digits, e.g. 10"
                )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with what was not typed from the configuration file."""
        from msshift_bench.cli.config_file import fill_in

        with fill_in(ctx):
            return super().invoke(ctx)


class Unfolded:
    """A function as a command, which takes every field of its dataclasses as an option of its own.

    The panel of these options in the help text is what the docstring of the dataclass says before
    its colon, if it has one, or what the function says: ``Annotated[Dataclass, "Panel"]``. So it is
    for single options. Names of types are short, so that help texts leave room for words on 80
    columns. All that is worked out when typer asks for it, for it takes a tenth of the time in
    which a command starts.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._function, include_extras=True)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(self._function).parameters.items():
            hint = self._hints[name]
            kind = _dataclass_of(hint)
            if kind is not None:
                title, colon, _ = str(kind.__doc__).partition(":")
                panel = next(iter(getattr(hint, "__metadata__", ())), title if colon else None)
                of_fields = get_type_hints(kind, include_extras=True)
                parameters += [
                    _parameter(field.name, of_fields[field.name], field.default, panel)
                    for field in fields(kind)
                ]
            else:
                parameters.append(_parameter(name, hint, parameter.default))
        return inspect.Signature(parameters)

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            name: parameter.annotation for name, parameter in self.__signature__.parameters.items()
        }

    def __call__(self, **typed: Any) -> None:
        """Run the function, its values made of what was typed."""
        for name, hint in self._hints.items():
            kind = _dataclass_of(hint)
            if kind is not None:
                typed[name] = kind(**{field.name: typed.pop(field.name) for field in fields(kind)})
        self._function(**typed)


def _dataclass_of(hint: Any) -> Any:
    """Return the dataclass that a hint names, or `None`."""
    kind = getattr(hint, "__origin__", hint)
    return kind if is_dataclass(kind) else None


def _parameter(name: str, hint: Any, default: Any, panel: str | None = None) -> inspect.Parameter:
    """Return a parameter as typer takes it.

    Args:
        name: its name.
        hint: its type, and what typer shall know of it: ``Annotated[int, Option(...), "Panel"]``.
        default: its default.
        panel: the panel of the help text, if the hint names none.
    """
    parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
    if not hasattr(hint, "__metadata__"):  # typer's context
        return parameter.replace(annotation=hint)
    kind, (declared, *titles) = hint.__origin__, hint.__metadata__
    option = copy(declared)
    option.rich_help_panel = next(iter(titles), panel or option.rich_help_panel)
    if isinstance(option, OptionInfo) and option.metavar is None:
        option.metavar = _SHORT[_innermost(kind)]
    return parameter.replace(annotation=Annotated[kind, option])


def text_and_examples(function: Callable[..., None]) -> tuple[str, str]:
    """Return what a docstring says, and its examples, which stand last in the help text."""
    text, *examples = inspect.cleandoc(str(function.__doc__)).split("\n\nExample: ")
    lines = [" ".join(example.split()) for example in examples]
    if len(lines) == 1:
        return text, f"Example: {lines[0]}"
    return text, "\n\n".join(["Examples:", *(f"- {line}" for line in lines)])


def is_typed(context: typer.Context, name: str) -> bool:
    """Return whether an option was typed; values of `msshift.toml` were not."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def refuse_others(context: typer.Context, taken: Collection[str], what: str) -> None:
    """Check that no option was typed but those that are taken.

    Args:
        context: typer's context of the command.
        taken: the names of the parameters.
        what: what takes them.

    Raises:
        UsageError: if another was.
    """
    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    others = [name for name in context.params if name not in taken and is_typed(context, name)]
    if others:
        typed = ", ".join(flags[name] for name in others)
        raise UsageError(f"{typed} and {what} do not go together; leave out {typed}")
