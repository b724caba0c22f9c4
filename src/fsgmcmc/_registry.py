"""Classes that can be saved by name: what is written is the name and a JSON configuration, and reading runs no code."""

import json
from typing import Any, Generic, TypeVar

Class = TypeVar("Class", bound=type)
Base = TypeVar("Base")


class Registry(Generic[Base]):
    """The classes of one kind, such as likelihoods, by their names.

    Args:
        kind: What they are, for error messages.
        base: Their base class.
    """

    def __init__(self, kind: str, base: type[Base]) -> None:
        self.kind, self.base = kind, base
        self.classes: dict[str, Any] = {}

    def register(self, cls: Class) -> Class:
        """Add a class under its own name; usable as a decorator."""
        given: Any = cls
        if not (isinstance(given, type) and issubclass(given, self.base)):
            raise TypeError(f"register takes a subclass of {self.base.__name__}, not {cls!r}")
        other = self.classes.get(cls.__name__)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"a {self.kind} called {cls.__name__} is registered already: choose another name")
        self.classes[cls.__name__] = cls
        return cls

    def to_config(self, instance: Any) -> dict[str, Any] | None:
        """Name and configuration of an instance as JSON, or None where it cannot be saved without code."""
        if self.classes.get(type(instance).__name__) is not type(instance):
            return None
        name, config = type(instance).__name__, instance.to_config()
        try:
            type(instance).from_config(json.loads(json.dumps(config)))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} cannot be saved, because its fields are not JSON or not the arguments of its constructor "
                f"({error}): define to_config and from_config"
            ) from error
        return {"name": name, "config": config}

    def from_config(self, saved: dict[str, Any]) -> Base:
        """The instance that `to_config` described."""
        name = saved["name"]
        if name not in self.classes:
            raise ValueError(
                f"the {self.kind} {name!r} is not known here; import the module that defines and registers it, "
                f"or choose one of {', '.join(self.classes)}"
            )
        return self.classes[name].from_config(saved["config"])
