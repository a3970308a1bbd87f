"""Text of the user's that goes into generated files: C strings and comments."""


def c_string(text: str) -> str:
    """A C string literal whose bytes are the text's UTF-8; anything but plain ASCII is an octal escape."""
    plain = {b for b in range(32, 127)} - set(b'"\\?%')
    body = "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode())
    return f'"{body}"'


def c_comment(text: str) -> str:
    """The text on one line, unable to end a comment or a shell word; only printable ASCII."""
    return "".join(c if " " <= c <= "~" else "?" for c in text).replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
