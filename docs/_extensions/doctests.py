"""For the site: examples that stand in a docstring without a heading become blocks of code."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class FencedDoctests(griffe.Extension):
    """Wraps what begins with >>> at the margin, up to the next empty line."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Of every documented object."""
        del kwargs
        if obj.docstring is not None:
            fenced = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = fenced.replace("Example:\n", "Examples:\n")  # the heading that griffe knows
