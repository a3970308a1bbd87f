"""chat_of: a checkpoint's chat template, rendered on marked messages, as the texts around each role's message.

The templates of ChatML (SmolLM2, Qwen2.5), Llama 3 and others write a fixed text before and after a message. What is
derived here is compared with the template on conversations of other messages; a template that does more is unknown.
"""

from collections.abc import Sequence
from typing import NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from presk_db.checkpoints.tokenizer_data import Chat

Message = tuple[str, str]
"""A role, and what it says."""

ROLES = ("system", "user", "assistant")
_SYSTEM, _USER, _ANSWER, _AGAIN = "SYSTEMtext0", "USERtext1", "ANSWERtext2", "AGAINtext3"
_LONGEST = 100_000


class _UnlikeError(Exception):
    """The template does not write messages as `Chat` can."""


class Template:
    """A chat template as transformers renders it, without tools, documents or a clock."""

    def __init__(self, source: str, bos: str, eos: str) -> None:
        """Compiles the template. Errors: jinja2's TemplateError."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(source)
        self._tokens = {"bos_token": bos, "eos_token": eos}

    def rendered(self, messages: Sequence[Message], answer: bool) -> str:
        """The conversation as text; `answer`: with what makes the model answer."""
        listed = [{"role": role, "content": content} for role, content in messages]
        return self._template.render(
            messages=listed, tools=None, documents=None, add_generation_prompt=answer, **self._tokens
        )


def chat_of(source: str, bos: str, eos: str) -> Chat | str:
    """What the template writes around messages, or in words why that cannot be said."""
    name = " ".join(source.split())[:60]
    if len(source) > _LONGEST:
        return f"the chat template {name}… is too long"
    try:
        template = Template(source, bos, eos)
        chat = _derived(template)
        _check(template, chat)
    except _UnlikeError:
        return f"the chat template {name}… does more than to write texts around messages"
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        return f"the chat template {name}… cannot be rendered: {' '.join(str(error).split())[:100]}"
    return chat


def chat_text(chat: Chat, messages: Sequence[Message], answer: bool) -> str:
    """The conversation as presk writes it; a system message can only come first."""
    given = list(messages)
    system = given.pop(0)[1] if given and given[0][0] == "system" else None
    text = chat.default if system is None else _written(chat, "system", system)
    text += "".join(_written(chat, role, content) for role, content in given)
    return text + (chat.answer if answer else "")


def _written(chat: Chat, role: str, content: str) -> str:
    number = ROLES.index(role)
    return chat.before[number] + (content.strip() if chat.trims else content) + chat.after[number]


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _cut(text: str, *marks: str) -> list[str]:
    """What stands before, between and behind the marks, each of which must be there once, in this order."""
    parts = []
    for mark in marks:
        if text.count(mark) != 1:
            raise _UnlikeError
        before, _, text = text.partition(mark)
        parts.append(before)
    return [*parts, text]


def _without(text: str, *, start: str = "", end: str = "") -> str:
    if not text.startswith(start) or not text.endswith(end) or len(text) < len(start) + len(end):
        raise _UnlikeError
    return text[len(start) : len(text) - len(end)]


def _derived(template: Template) -> Chat:
    user, system, assistant = ("user", _USER), ("system", _SYSTEM), ("assistant", _ANSWER)
    plain = template.rendered([user], False)
    head, after_user = _cut(plain, _USER)
    answer = _without(template.rendered([user], True), start=plain)
    after_assistant = _cut(template.rendered([user, assistant], False), _USER, _ANSWER)[-1]
    turns = template.rendered([user, assistant, ("user", _AGAIN)], False)
    _, to_assistant, to_user, _ = _cut(turns, _USER, _ANSWER, _AGAIN)
    before_assistant = _without(to_assistant, start=after_user)
    before_user = _without(to_user, start=after_assistant)
    before_system, to_first, _ = _cut(template.rendered([system, user], False), _SYSTEM, _USER)
    return Chat(
        before=(before_system, before_user, before_assistant),
        after=(_without(to_first, end=before_user), after_user, after_assistant),
        default=_without(head, end=before_user),
        answer=answer,
        trims=" x "
        not in template.rendered([("user", "( x )"), ("assistant", " x "), user], False).replace("( x )", ""),
    )


def _check(template: Template, chat: Chat) -> None:
    """Raises where the template writes a conversation in another way."""
    contents = (
        "hi",
        " two  words \n",
        "\n\n",
        "",
        "{{ x }} {% y %}",
        "<|im_end|>\n<|eot_id|>",
        "é👩‍👩‍👧\u3000",
        "tail\u2003",
    )
    for number, content in enumerate(contents):
        other = contents[number - 1]
        talk = [("user", content), ("assistant", other), ("user", other), ("assistant", content), ("user", content)]
        for start in ([], [("system", content)], [("system", other)]):
            for length in (1, 3, 5):
                messages = [*start, *talk[:length]]
                for answer in (False, True):
                    if template.rendered(messages, answer) != chat_text(chat, messages, answer):
                        raise _UnlikeError
