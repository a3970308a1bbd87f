"""rendered: the text of a template over rows. The only module that knows Mako.

A template sees each query's rows under the query's name, and the options. Expressions may be str or int alone.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mako import exceptions
from mako.lookup import TemplateLookup

from presk_db.errors import GeneratorBad


def plain(value: object) -> str:
    """The text of a str or an int; anything else is a fault of the template."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise TypeError(f"a template printed {type(value).__name__}; only str and int are printed")
    return str(value)


def rendered(folder: Path, template: str, values: Mapping[str, Any]) -> str:
    """The rendered text. Raises GeneratorBad (E6001) with the template's line where it fails."""
    lookup = TemplateLookup(
        directories=[str(folder)],
        strict_undefined=True,
        default_filters=["plain"],
        imports=[
            "from presk_db.emit.render import plain",
            "from presk_db.emit.text import c_call, c_comment, c_string",
        ],
    )
    try:
        text: str = lookup.get_template(template).render(**values)
    except Exception as e:
        raise GeneratorBad(f"{type(e).__name__}: {e}", _place(e, template)) from e
    return text


def _place(e: Exception, template: str) -> str:
    """The template and the line at which it failed: of the innermost template, or of what does not parse."""
    if isinstance(e, exceptions.MakoException) and hasattr(e, "lineno"):
        return f"{Path(str(getattr(e, 'filename', None) or template)).name} line {e.lineno}"
    records = [r for r in exceptions.RichTraceback().records if r[4]]  # r[4]: the template's file, r[5]: the line in it
    return f"{Path(str(records[-1][4])).name} line {records[-1][5]}" if records else template
