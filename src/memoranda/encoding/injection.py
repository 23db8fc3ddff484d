"""Detection of prompt injection: memories that look like instructions to a model.

A memory is data. One that tells its reader to drop its instructions, to change its role, to hide something from the
user or to send data away mostly comes from the author of a page or a mail that an agent read. This guesses by the
wording. It marks memories for review and changes nothing. Instructions that people write for their agents (always run
the tests, never use npm) are legitimate and are not matched.

Everything takes time linear in the text: quantifiers are bounded, and no pattern starts inside text that it has already
read.
"""

from __future__ import annotations

import re
from typing import Final

# In the patterns below, a space stands for the gap between two words of a sentence, … for up to four words and …… for
# up to eight.
_BETWEEN: Final = r"[^\w\n]{1,3}"
_FEW_WORDS: Final = rf"(?:{_BETWEEN}[\w'’]{{1,20}}){{0,4}}{_BETWEEN}"
_MORE_WORDS: Final = rf"(?:{_BETWEEN}[\w'’]{{1,20}}){{0,8}}{_BETWEEN}"
_DROP: Final = (
    "(?:ignor(?:e|es|ing|ez|a|ar|are|iere|ieren)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass|drop|discard|"
    "(?:do not|don['’]t|stop) follow(?:ing)?|no longer bound by|vergiss|missachte|oublie[zr]?|olvida|dimentica|esqueça)"
)
_EARLIER: Final = (
    "(?:previous|prior|above|earlier|preceding|original|initial|existing|system|developer|safety|your|vorherigen?|"
    "bisherigen?|obigen?|deine|précédentes?|antérieures?|tes|vos|anteriores|previas|tus|sus|precedenti|acima)"
)
_ORDERS: Final = (
    "(?:instructions?|prompts?|rules?|guidelines?|directions?|commands?|messages?|context|constraints?|policy|policies|"
    "programming|training|restrictions?|filters?|anweisungen?|regeln?|vorgaben?|consignes?|règles?|instrucciones|"
    "reglas|istruzioni|regole|instruções|regras)"
)
_PATTERNS: Final[dict[str, tuple[str, ...]]] = {
    # Tells the reader to drop its instructions.
    "override": (
        rf"\b{_DROP}\b…{_EARLIER}\b…{_ORDERS}\b",
        rf"\b{_DROP}\b…{_ORDERS}\b…(?:above|before|so far|précédentes|anteriores|precedenti)\b",
        (
            r"\b(?:ignore|disregard|forget|vergiss|oublie|olvida) (?:all|everything|anything|alles|tout|todo)\b…"
            r"(?:before|above|told|said|learned|learnt|instructed|bisher|avant|anterior)\b"
        ),
        r"\b(?:new|updated|real|actual|revised) (?:system )?(?:instructions?|prompt)\b[^\w\n]{0,3}:",
        (
            r"\bignore (?:instructions?|(?:the rest|this|other|any other|all other)\b…)(?:and )?(?:just )?"
            r"(?:print|say|output|respond|reply|write)\b"
        ),
        r"忽略(?:之前|以上|上面|前面|先前|所有)[^。\n]{0,12}(?:指令|指示|提示|规则|内容)",
        r"(?:これまで|以前|上記)[^。\n]{0,12}(?:指示|命令|ルール)[^。\n]{0,6}無視",
    ),
    # Contains the markup of chat roles, or addresses machines.
    "role": (
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id)\|>|\[/?INST\]|<</?SYS>>",
        r"</?(?:system|assistant|instructions?|system[_-](?:prompt|message|reminder))>",
        r"^\#{1,6}\x20?(?:system|instructions?)\x20?:",
        r"^[\x20\t]{0,8}(?:system|assistant)\x20?:\x20",
        r"\[admin (?:request|override)|\bsystem (?:message|override)\x20?:",
        (
            r"\b(?:note|message|instructions?) (?:to|for) (?:the |any |all )?"
            r"(?:ai|a\.i\.|llms?|language models?|chatbots?|automated \w{1,20})\b"
        ),
    ),
    # Gives the reader another identity, or removes its limits.
    "persona": (
        (
            r"\b(?:you are|you['’]re|act|behave|respond|answer|pretend|roleplay|role-play|simulate)\b…"
            r"(?:unrestricted|uncensored|unfiltered|jailbroken|jailbreak|amoral|DAN|(?:no|any|without|zero) "
            r"(?:restrictions?|limits?|limitations?|filters?|rules?|ethics|ethical|moral|guidelines?|boundaries))\b"
        ),
        r"\byou (?:are|will) now (?:act|be|a|an|the|in|going|called|known)\b",
        (
            r"\b(?:developer|god|jailbreak|dan|dude|debug|admin|sudo|maintenance) mode (?:is )?"
            r"(?:enabled|on|activated|output|active)\b"
        ),
        r"\bfrom now on (?:you|act|answer|respond|reply)\b",
        r"\b(?:do anything now|stay in character|break(?:s|ing)? character)\b",
    ),
    # Tells the reader to hide something from the user.
    "secrecy": (
        (
            r"\b(?:do not|don['’]?t|never|without) (?:ever )?"
            r"(?:tell|inform|mention|reveal|alert|notify|ask|show)(?:ing)?\b…"
            r"(?:the )?(?:user|human|operator|owner|person|anyone|anybody|them)\b"
        ),
        (
            r"\b(?:silently|secretly|covertly|without confirmation) "
            r"(?:send|run|execute|call|fetch|post|upload|forward|delete|add|install|download|copy|email)\b"
        ),
    ),
    # Sends data away, or asks for the model's instructions.
    "exfiltration": (
        (
            r"\b(?:send|post|upload|forward|exfiltrate|leak|transmit|submit|email|append|encode|include)\b……"
            r"(?:conversation|chat|history|credentials?|passwords?|api keys?|secrets?|tokens?|environment|env|memories|"
            r"memory|\.env)\b…(?:to|at|into|in|as)\b…"
            r"(?:https?:|www\.|url|webhook|link|image|endpoint|server|[\w.+-]{1,40}@[\w-]{1,40}\.)"
        ),
        (
            r"\b(?:reveal|repeat|print|output|show|display|tell me|give me|what (?:is|are|was|were)|leak|write)\b…"
            r"(?:system|initial|original|hidden|secret|starting|initialization) (?:prompt|instructions?|message)\b"
        ),
        r"!\[[^\]\n]{0,80}\]\(https?:[^)\s]{1,200}[?&=][^)\s]{0,80}(?:\{|\[|%7B|data|secret|token|key)",
    ),
}


def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile the patterns of one kind into one."""
    pattern = "|".join(patterns)
    for shorthand, expansion in (("……", _MORE_WORDS), ("…", _FEW_WORDS), (" ", _BETWEEN)):
        pattern = pattern.replace(shorthand, expansion)
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


_KINDS: Final = {kind: _compile(patterns) for kind, patterns in _PATTERNS.items()}
# Invisible characters that a model reads: tag characters, and runs of zero-width characters.
_HIDDEN: Final = re.compile(
    "[\U000e0000-\U000e007f]{4,}|[\u200b\u200c\u2060\u2061-\u2064\ufeff]{4,}"
)
# Characters. Only the beginning of a longer text is examined, such as a complete page.
_EXAMINED_CHARS: Final = 200_000


def find_instructions(text: str) -> tuple[str, ...]:
    """Return the kinds of instructions to a model that the text seems to contain, without duplicates; mostly none."""
    beginning = text[:_EXAMINED_CHARS]
    kinds = [kind for kind, pattern in _KINDS.items() if pattern.search(beginning) is not None]
    if not beginning.isascii() and _HIDDEN.search(beginning) is not None:
        kinds.append("hidden")
    return tuple(kinds)
