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
        trace = exceptions.RichTraceback()
        lines = [line for file, line, _, _ in trace.records if file.endswith(".mako")]
        lines += [record[5] for record in trace.records if record[4] and str(record[4]).endswith(template)]
        place = f"{template} line {lines[-1]}" if lines else template
        raise GeneratorBad(f"{type(e).__name__}: {e}", place) from e
    return text
