"""Lists of names on the command line: joined by commas, or the word all."""

from collections.abc import Iterable


def listed(text: str) -> list[str]:
    """The names in the text, each once.

    Example:
        >>> listed("sgld, fsgld,,sgld")
        ['sgld', 'fsgld']
    """
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def chosen(text: str, known: Iterable[str], what: str) -> tuple[str, ...]:
    """The names in the text, checked against the known ones; "all" is all known names.

    Example:
        >>> chosen("all", ["sgld", "fsgld"], "method")
        ('sgld', 'fsgld')
    """
    known, names = tuple(known), listed(text)
    if names == ["all"]:
        return known
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"unknown {what} {', '.join(unknown) or repr(text)}; choose from {', '.join(known)}")
    return tuple(names)
