"""Expressions without what constants decide: choices, logical operators, zeros in sums, ones in products, needless brackets."""

from __future__ import annotations

import itertools
import re

from transfuse.emit.text.layout import plain
from transfuse.emit.text.tokens import CLOSING, Token, closing, find, split
from transfuse.emit.text.ranges import interval, value
from transfuse.emit.text.values import Function, agreed, vector

BREAKS = {",", ";", "=", "+=", "-=", "*=", "|=", "&=", ":", "{", "}"}


def simplified(items: list[Token], known: dict[str, int]) -> list[Token]:
    """Logical operators and choices that constants decide are gone; everything else stays as it reads."""
    out: list[Token] = []
    part: list[Token] = []
    i = 0

    def flush():
        out.extend(_choice(part, known))
        part.clear()

    questions = 0
    while i < len(items):
        token = items[i]
        if token.text in CLOSING:
            end = closing(items, i)
            inner = simplified(items[i + 1 : end], known)
            if token.text == "{":
                flush()
                out.extend([token, *inner, items[end]])
            elif token.text == "(" and (number := _called(part, inner, known)) is not None:
                part[-1] = Token("number", str(number), part[-1].space)
            elif token.text == "(" and _bare(part, inner, items, end):
                part.extend([Token(inner[0].kind, inner[0].text, token.space), *inner[1:]])
            else:
                part.extend([token, *inner, items[end]])
            i = end + 1
            continue
        questions += token.text == "?"
        if token.text == ":" and questions:
            questions -= 1
            part.append(token)
        elif token.text in BREAKS or token.text in ("return",):
            flush()
            questions = 0
            out.append(token)
        else:
            part.append(token)
        i += 1
    flush()
    return out


def _called(before: list[Token], inner: list[Token], known: dict) -> int | None:
    """What a function that is one expression of numbers gives for these."""
    function = known.get(before[-1].text) if before else None
    if not isinstance(function, Function) or not all(t.kind == "number" or t.text == "," for t in inner):
        return None
    found = agreed(function.value([agreed(vector(a, known)) for a in split(inner, {","})], known))
    return found if found is not None and found >= 0 else None


TYPES = re.compile(
    r"(?:const )?(?:unsigned |long )*(?:int|float|double|unsigned|char|bool|void|short|long|[A-Z]+|tf_\w+|u?int[24]|float[24])"
    r"(?:<.*>)?(?: ?const)?[ *&]*"
)


def _bare(before: list[Token], inner: list[Token], items: list[Token], end: int) -> bool:
    """Whether parentheses stand around what needs none: not those of a call, a cast or a condition."""
    if not inner or (end + 1 >= len(items) and before and before[-1].kind != "operator"):
        return False
    if before and (before[-1].kind != "operator" or before[-1].text in (">", "]")):
        return False
    if len(inner) == 1 and inner[0].kind == "number":
        return True
    if before and before[-1].text == ")":
        return False
    if (
        before
        and before[-1].text in ("*", "&")
        and (len(before) < 2 or (before[-2].kind == "operator" and before[-2].text not in (")", "]")))
    ):
        return False
    if inner[0].text == "(" and closing(inner, 0) == len(inner) - 1:
        return True
    follows = items[end + 1] if end + 1 < len(items) else Token("operator", ";", "")
    if follows.kind != "operator" or follows.text in ("(", ".", "[", "->", "++", "--"):
        return False
    return _primary(inner) or _binds(inner, before[-1].text if before else "", follows.text)


LOOSE = {"", "?", ":", "<", "<=", ">=", "==", "!=", "&&", "||"}  # what binds no tighter than a comparison
SUMS, PRODUCTS = {"+", "-"}, {"*", "/", "%"}


def _binds(inner: list[Token], before: str, after: str) -> bool:
    """Whether a sum or a product in parentheses means the same without them, computed in the same order."""
    depth, signs = 0, set()
    for i, token in enumerate(inner):
        depth += (token.text in CLOSING) - (token.text in CLOSING.values())
        if not depth and token.kind == "operator" and token.text not in (*CLOSING, *CLOSING.values(), ".", "->"):
            if i == 0 or (inner[i - 1].kind == "operator" and inner[i - 1].text not in (")", "]")):
                return False  # a sign, an address, what a pointer points to
            signs.add(token.text)
    if not signs or (inner[-1].kind == "operator" and inner[-1].text not in (")", "]")) or not signs <= SUMS | PRODUCTS:
        return False
    if TYPES.fullmatch(plain(inner)) or any(
        a.text == ")" and b.kind in ("word", "number") for a, b in itertools.pairwise(inner)
    ):
        return False  # a type, or casts in it
    if signs <= PRODUCTS:
        return before in LOOSE | SUMS and after in LOOSE | SUMS | {";", ",", ">"}
    return before in LOOSE and after in LOOSE | SUMS | {";", ",", ">"}


def _primary(items: list[Token]) -> bool:
    """Casts and then a word, a number, a call or an element."""
    at = 0
    while items[at].text == "(":
        end = closing(items, at)
        if not TYPES.fullmatch(plain(items[at + 1 : end])) or end + 1 == len(items):
            return False
        at = end + 1
    if items[at].kind not in ("word", "number") or TYPES.fullmatch(plain(items)):
        return False
    at += 1
    while at < len(items):
        if items[at].text in ("(", "["):
            at = closing(items, at) + 1
        elif items[at].text == "." and at + 1 < len(items):
            at += 2
        else:
            return False
    return True


def _choice(items: list[Token], known: dict[str, int]) -> list[Token]:
    cut = find(items, "?")
    if cut is None:
        return _arithmetic(logical(items, known), known)
    depth = 0
    for end in range(cut + 1, len(items)):
        if _depth(items, cut, end) == 0:
            depth += items[end].text == "?"
            if items[end].text == ":":
                if depth == 0:
                    break
                depth -= 1
    else:
        return items
    condition = logical(items[:cut], known)
    decided = value(condition, known)
    yes, no = items[cut + 1 : end], items[end + 1 :]
    if decided is not None:
        chosen = _choice(yes if decided else no, known)
        if chosen and items:
            chosen = [Token(chosen[0].kind, chosen[0].text, items[0].space), *chosen[1:]]
        return chosen
    return [*condition, items[cut], *_choice(yes, known), items[end], *_choice(no, known)]


def _depth(items: list[Token], start: int, end: int) -> int:
    return sum((t.text in CLOSING) - (t.text in CLOSING.values()) for t in items[start:end])


def logical(items: list[Token], known: dict[str, int]) -> list[Token]:
    for operator, deciding in (("||", 1), ("&&", 0)):
        parts = split(items, {operator})
        if len(parts) == 1:
            continue
        kept = []
        for part in parts:
            part = logical(part, known)
            decided = value(part, known)
            if decided is None:
                kept.append(part)
            elif bool(decided) == bool(deciding):
                return [Token("number", str(deciding), items[0].space)]
        if not kept:
            return [Token("number", str(1 - deciding), items[0].space)]
        out = list(kept[0])
        if out:
            out[0] = Token(out[0].kind, out[0].text, items[0].space)
        for part in kept[1:]:
            out += [Token("operator", operator, " "), *part]
        return out
    return items


ADDED, LOWER = {"+", "-"}, {"<", ">", "<=", ">=", "==", "!=", "<<", ">>", "&", "|", "^", "&&", "||", "?", ":"}


def _arithmetic(items: list[Token], known: dict[str, int]) -> list[Token]:
    """Sums without zeros, products without ones."""
    if not items or not any(t.text in ("+", "-", "*", "/", "%") for t in items):
        return items
    parts, signs = _pieces(items, LOWER)
    if len(parts) > 1:
        out: list[Token] = []
        for sign, part in zip([None, *signs], parts):
            out += ([sign] if sign else []) + _arithmetic(part, known)
        return out
    terms, signs = _pieces(items, ADDED)
    if any(not term or term[0].text in ("*", "&", "!", "~") for term in terms) or (signs and not terms[0]):
        return items
    kept: list[tuple[Token | None, list[Token]]] = []
    for sign, term in zip([None, *signs], terms):
        term = _product(term, known)
        if value(term, known) != 0:
            kept.append((sign, term))
    if len(kept) == len(terms) and all(a is b[1] for a, b in zip(terms, kept)):
        return items
    if not kept:
        return [Token("number", "0", items[0].space)]
    if kept[0][0] is not None and kept[0][0].text == "-":
        return items
    out = [Token(kept[0][1][0].kind, kept[0][1][0].text, items[0].space), *kept[0][1][1:]]
    for sign, term in kept[1:]:
        out += [Token("operator", sign.text, " "), Token(term[0].kind, term[0].text, " "), *term[1:]]
    return out


def _product(items: list[Token], known: dict[str, int]) -> list[Token]:
    factors, signs = _pieces(items, {"*", "/", "%"})
    if len(factors) < 2 or not all(factors) or any(f[0].text in ("-", "&") for f in factors):
        return items
    out: list[tuple[str, list[Token]]] = []
    changed = False
    for sign, factor in zip(["*", *(s.text for s in signs)], factors):
        found = value(factor, known)
        if sign == "%" and out and _within([t for _, f in out for t in f], factor, known, len(out)):
            changed = True
        elif (sign == "%" and found == 1) or (sign == "*" and found == 0):
            out, changed = [("*", [Token("number", "0", "")])], True
        elif found == 1 and sign in "*/":
            changed = True
        else:
            if out and value(out[0][1], known) == 0 and sign == "*" and len(out) == 1:
                continue
            out.append((sign, factor))
    if not changed:
        return items
    if not out:
        return [Token("number", "1", items[0].space)]
    if out[0][0] != "*":
        return items
    first = out[0][1]
    if len(out) == 1 and value(first, known) == 0:
        return [Token("number", "0", items[0].space)]
    result = [Token(first[0].kind, first[0].text, items[0].space), *first[1:]]
    for sign, factor in out[1:]:
        result += [Token("operator", sign, " "), Token(factor[0].kind, factor[0].text, " "), *factor[1:]]
    return result


def _within(items: list[Token], bound: list[Token], known: dict, factors: int) -> bool:
    """Whether a number is its own remainder."""
    mine, most = (interval(items, known), interval(bound, known)) if factors == 1 else (None, None)
    return mine is not None and most is not None and 0 <= mine.lo and mine.hi < most.lo


def _pieces(items: list[Token], by: set[str]) -> tuple[list[list[Token]], list[Token]]:
    parts, signs, depth = [[]], [], 0
    for token in items:
        depth += (token.text in CLOSING) - (token.text in CLOSING.values())
        if depth == 0 and token.text in by and token.kind == "operator":
            parts.append([])
            signs.append(token)
        else:
            parts[-1].append(token)
    return parts, signs
