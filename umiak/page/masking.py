"""Hides what looks like a password, a token or a key in text that others may see."""

from __future__ import annotations

import re

HIDDEN = "•••"
# A word for a secret anywhere in a name; but `token` only at its end, because models have tokenizers and numbers of tokens.
# Every repetition has a bound, and begins where a word begins: a log line that is made to take long takes no longer than others.
_NAME = (
    r"(?:[\w.-]{0,60}?(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|credential)[\w.-]{0,40}"
    r"|[\w.-]{0,60}?token)"
)
_NAMED = re.compile(rf"(?i)(?<![\w.-])({_NAME}[\"']?\s{{0,8}}[=:]\s{{0,8}})(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&)\]}}]+)")
_RULES = (
    (re.compile(r"((?<![\w+.-])[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,200}:)[^\s/@]{1,400}(?=@)", re.I), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)(\b(?:bearer|basic)\s{1,8})[\w.~+/=-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"(?<![\w-])(?:gh[opsu]|github_pat|glpat|hf|sk|xox[abp])[_-][A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"(?<![\w-])eyJ[\w-]{10,4000}\.[\w-]{10,4000}\.[\w-]{10,4000}"), HIDDEN),
    (
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.S),
        HIDDEN,
    ),
    (_NAMED, rf"\1{HIDDEN}"),
)


def masked(text: str, name: str = "") -> str:
    """`name` is what the text is the value of, if it is one."""
    if name and re.fullmatch(f"(?i){_NAME}", name):
        return HIDDEN
    for pattern, shown in _RULES:
        text = pattern.sub(shown, text)
    return text
