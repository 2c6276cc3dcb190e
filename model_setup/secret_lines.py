"""Lines that look like keys, passwords or tokens: they are dropped before anything learns from a text.

Rules of our own, though detect-secrets is well kept: on 302 files of six packages, 4.0 MB or about a million
tokens, its rules took 24 s against 1.0 s for these, and found one line in them that these did not (a password
of two words) against three. It also asks the issuers over the network whether a key is in use unless told not
to, and brings five packages. The forms of keys that it knows are here.
"""

from __future__ import annotations

import math
import re
from collections import Counter

# Forms that their issuers documented, so that scanners can find them. The first of each pair is a part
# that must occur: looking for it is far cheaper than the expression.
_ISSUED = tuple(
    (part, re.compile(pattern))
    for part, pattern in (
        # PEM, with its body if there is one
        ("-----BEGIN", r"-----BEGIN[A-Z0-9 ]* PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]{0,20000}?-----END)?"),
        ("PuTTY-", r"PuTTY-User-Key-File-\d"),
        ("AKIA", r"AKIA[0-9A-Z]{16}"),  # AWS
        ("ASIA", r"ASIA[0-9A-Z]{16}"),
        ("gh", r"gh[pousr]_[0-9A-Za-z]{20,}"),  # GitHub, GitLab
        ("github_pat_", r"github_pat_[0-9A-Za-z_]{20,}"),
        ("glpat-", r"glpat-[0-9A-Za-z_-]{20,}"),
        ("sk-", r"\bsk-[0-9A-Za-z_-]{20,}"),  # OpenAI and its like
        ("k_", r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}"),  # Stripe
        ("xox", r"xox[abprs]-[0-9A-Za-z-]{10,}"),  # Slack
        ("AIza", r"AIza[0-9A-Za-z_-]{35}"),  # Google
        ("hf_", r"hf_[0-9A-Za-z]{30,}"),  # Hugging Face
        ("npm_", r"npm_[0-9A-Za-z]{30,}"),
        ("pypi-", r"pypi-[0-9A-Za-z_-]{30,}"),
        ("eyJ", r"eyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}"),  # JSON web token
        ("SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),  # SendGrid
        ("sq0csp-", r"sq0csp-[\w-]{43}"),  # Square
        ("hooks.slack", r"hooks\.slack\.com/services/T\w+/B\w+/\w+"),
        (":AA", r"\b\d{8,10}:AA[\w-]{33}"),  # Telegram
        ("AKC", r"\bAKC[0-9A-Za-z]{10,}\b"),  # Artifactory
        ("SK", r"\bSK[0-9a-f]{32}\b"),  # Twilio
        ("AccountKey=", r"AccountKey=[\w+/=]{40,}"),  # Azure
        ("_authToken", r"_authToken\s*="),  # npm
        (".", r"\b[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}"),  # Discord
        ("://", r"""://[^\s:/@"']{1,80}:[^\s:/@"'{}<>$]{3,80}@"""),  # password in a URL
    )
)
# name = "literal", in the syntax of most languages; the name says how strict to be about the literal
_ASSIGNED = re.compile(
    r"""(passw(?:or)?d|pwd|secret|token|api_?key|private_?key|access_?key|auth)[a-z0-9_]*["']?\s{0,3}"""
    r"""(?::=|[:=]|=>)\s{0,3}["'`]([^"'`\s]{6,200})["'`]""",
    re.IGNORECASE,
)
# NAME=literal without quotes, alone on its line: shell, YAML, .properties
_UNQUOTED = re.compile(
    r"""^[ \t]*(?:export |set |ENV |- )?[\w.-]{0,60}?(passw(?:or)?d|pwd|secret|token|api_?key|private_?key|"""
    r"""access_?key|auth)[\w-]*[ \t]?[:=][ \t]?([\w+/=!@#%^&*~-]{6,200})[ \t]*$""",
    re.IGNORECASE | re.MULTILINE,
)
_HEX = re.compile(r"\b[0-9A-Fa-f]{32,}\b")
_BASE64 = re.compile(r"""["']([0-9A-Za-z+/_-]{32,}={0,2})["']""")
_BASE64_BITS = 4.5  # per character: random base64 of 32 characters has about 4.7, words and paths under 4.2


def drop_secret_lines(text: str) -> tuple[str, int]:
    """``text`` without the lines that look like a secret, and how many those were."""
    secret = secret_lines(text)
    if not secret:
        return text, 0
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    return "".join(line for number, line in enumerate(lines) if number not in secret), len(secret)


def secret_lines(text: str) -> set[int]:
    """The numbers, from 0, of the lines that look like a secret or a part of one."""
    found = [match.span() for part, form in _ISSUED if part in text for match in form.finditer(text)]
    found += [match.span() for match in _HEX.finditer(text)]
    found += [match.span() for match in _ASSIGNED.finditer(text) if _is_secret(match[1], match[2])]
    found += [match.span() for match in _UNQUOTED.finditer(text) if _is_unquoted_secret(match[1], match[2])]
    found += [match.span() for match in _BASE64.finditer(text) if _entropy(match[1]) > _BASE64_BITS]
    numbers: set[int] = set()
    line = position = 0
    for first, end in sorted(found):
        line += text.count("\n", position, first)
        position = first
        numbers.update(range(line, line + text.count("\n", first, end) + 1))
    return numbers


def _is_secret(name: str, literal: str) -> bool:
    """A password may be any word; a token or key must look like one, for those names mean much in code."""
    if name.lower() in {"password", "passwd", "pwd", "secret"}:
        return True
    return len(literal) >= 16 and bool(re.search(r"\d", literal)) and bool(re.search(r"[A-Za-z]", literal))


def _is_unquoted_secret(name: str, literal: str) -> bool:
    """Without quotes it may be code: a variable, a type. Those seldom have digits, and hardly several."""
    digits = sum(character.isdigit() for character in literal)
    return _is_secret(name, literal) and digits > 0 and (digits > 2 or _entropy(literal) > _BASE64_BITS)


def _entropy(literal: str) -> float:
    """Shannon entropy of the characters, bits per character."""
    size = len(literal)
    return -sum(n / size * math.log2(n / size) for n in Counter(literal).values())
