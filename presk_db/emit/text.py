"""Text of the user's that goes into generated files: C strings and comments."""

from collections.abc import Sequence


def c_string(text: str) -> str:
    """A C string literal whose bytes are the text's UTF-8; anything but plain ASCII is an octal escape."""
    plain = {b for b in range(32, 127)} - set(b'"\\?%')
    body = "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode())
    return f'"{body}"'


def c_comment(text: str) -> str:
    """The text on one line, unable to end a comment or a shell word; only printable ASCII."""
    return (
        "".join(c if " " <= c <= "~" else "?" for c in text)
        .replace("\\", "/")
        .replace("*/", "* /")
        .replace("/*", "/ *")
    )


def c_call(indent: str, function: str, arguments: Sequence[str], width: int = 110) -> str:
    """The statement `function(arguments);` over as many lines as keep it below `width` columns."""
    lines = [f"{indent}{function}("]
    for number, argument in enumerate(arguments):
        piece = argument + (", " if number + 1 < len(arguments) else ");")
        if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append(f"{indent}    ")
        lines[-1] += piece
    return "\n".join(lines) if arguments else f"{lines[0]});"
