"""The words of a text, as they are indexed and compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from jazzmine.closest import hint
from jazzmine.errors import ConfigurationError
from jazzmine.extras import extra

# An index entry must be small enough for every back end: a tsvector has at most 1 MB, and for each
# pair of characters it needs 12 bytes beside them. In characters, in UTF-8 bytes, in characters.
_LONGEST_TEXT, _MOST_BYTES, _LONGEST_WORD = 100_000, 120_000, 64

# Scripts without spaces: Thai, Lao, Myanmar, Khmer, kana, CJK ideographs, and their extensions; and
# Hangul, whose words end in particles. Their words are pairs of characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)

# Unicode's word boundaries, after folding: these signs do not end a word between two letters, or
# between two digits. https://www.unicode.org/reports/tr29/#Word_Boundaries
_SIGNS_IN_LETTERS, _SIGNS_IN_NUMBERS = "'.\u00b7\u055f\u05f4\u2027", "'.,\u060c\u066c\u066b"


def _word_pattern(unspaced: str, signs_in_letters: str, signs_in_numbers: str) -> str:
    character, letter = rf"[^\W{unspaced}]", rf"[^\W\d_{unspaced}]"
    between_letters = rf"(?<={letter})[{signs_in_letters}](?={letter})"
    between_digits = rf"(?<=\d)[{signs_in_numbers}](?=\d)"
    return rf"{character}+(?:(?:{between_letters}|{between_digits}){character}+)*"


_ASCII_WORD = re.compile(_word_pattern("", "'.", "'.,"), re.ASCII)
_WORD = re.compile(
    rf"([{_UNSPACED}]+)|{_word_pattern(_UNSPACED, _SIGNS_IN_LETTERS, _SIGNS_IN_NUMBERS)}"
)

_ONE_UNSPACED = re.compile(f"[{_UNSPACED}]")

# Parts of Korean syllables, and kana with their voicing signs, which tell words apart: they are
# composed before they are compared.
_PARTS = (
    "[\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\ud7b0-\ud7ff]+"
    "|[\u3041-\u30ff\uff66-\uff9d][\u0300-\u036f]*[\u3099\u309a\uff9e\uff9f]"
)
_VOICING = frozenset("\u3099\u309a")
_COMPOSED = re.compile(_PARTS)
_CHUNK = re.compile(f"{_PARTS}|.", re.DOTALL)


class _Folding(dict[int, str]):
    """Replacements of characters: a table for `str.translate`."""

    def __missing__(self, code: int) -> str:
        value = self[code] = _fold(chr(code))
        return value


def _fold(chars: str) -> str:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", chars).casefold())
    text = unicodedata.normalize("NFKD", text.casefold())
    text = "".join(char for char in text if char in _VOICING or not _is_ignored(char))
    return unicodedata.normalize("NFC", text)


def _is_ignored(char: str) -> bool:
    category = unicodedata.category(char)
    return category == "Cf" or category.startswith("M")


# The zero-width space separates words; the apostrophe has several forms. Letters with a stroke and
# the like are no compositions of a letter and a mark.
_FOLDING = _Folding({0x200B: " ", 0x2018: "'", 0x2019: "'"})
_FOLDING.update(
    (ord(letter), plain) for letter, plain in zip("øØłŁđĐħĦŧŦıÐð", "oollddhhttidd", strict=True)
)


def folded(text: str) -> str:
    """Return a text in the form in which texts are compared.

    Compatible characters are replaced (NFKC), without case, and marks and invisible characters are
    removed.
    """
    if text.isascii():
        return text.lower()
    return _COMPOSED.sub(lambda part: _fold(part[0]), text).translate(_FOLDING)


class Word(NamedTuple):
    """A word of a text: the folded word, then "|" and its stem if it differs; and its place."""

    form: str
    start: int
    end: int


class Analyser:
    """Finds the words of texts, with stems if it has a language of `snowballstemmer`."""

    def __init__(self, language: str = "") -> None:
        self.language: str = language
        # Conversations repeat their words.
        self._stem = lru_cache(maxsize=20_000)(_stemmer(language)) if language else None

    def entry(self, text: str) -> str:
        """Return the forms of a text's words in order, with a space between them."""
        if self._stem is not None:
            return " ".join(word.form for word in self.words(text))
        text = folded(_beginning(text))
        return " ".join(text[start:end][:_LONGEST_WORD] for start, end, _ in _places(text))

    def words(self, text: str) -> list[Word]:
        """Return the words of a text in order; of a long text, the words of its beginning."""
        text = _beginning(text)
        if text.isascii():
            comparable, origins = text.lower(), None
        else:
            comparable, origins = _folded_with_origins(text)
        words = []
        for first, last, is_pair in _places(comparable):
            form = comparable[first:last][:_LONGEST_WORD]
            start, end = (first, last) if origins is None else _origin(origins, first, last)
            if self._stem is not None and not is_pair:
                stem = self._stem(form if origins is None else text[start:end])[:_LONGEST_WORD]
                form = form if stem in (form, "") else f"{form}|{stem}"
            words.append(Word(form, start, end))
        return words


@lru_cache(maxsize=8)
def analyser_for(language: str) -> Analyser:
    """Return the analyser for a language, with its cache of stems."""
    return Analyser(language)


def terms_of(entry: str) -> list[str]:
    """Return the words and stems in an index entry, each once, in order of their code points."""
    return sorted(set(entry.replace("|", " ").split()))


def is_part_of_pair(form: str) -> bool:
    """Return whether a word is one character of a script that is written without spaces."""
    return _ONE_UNSPACED.fullmatch(form) is not None


def _beginning(text: str) -> str:
    """Return the indexed beginning of a text."""
    text = text[:_LONGEST_TEXT]
    if text.isascii():
        return text
    return text.encode()[:_MOST_BYTES].decode(errors="ignore")


def _places(comparable: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the places of the words in a folded text, and whether they are pairs of characters.

    The last character of a pair is a term of its own as well, so that each of them begins a word.
    """
    if comparable.isascii():
        for match in _ASCII_WORD.finditer(comparable):
            yield *match.span(), False
        return
    for match in _WORD.finditer(comparable):
        start, end = match.span()
        if match[1] is None:
            yield start, end, False
        else:
            for first in range(start, end):
                yield first, min(first + 2, end), True


def _folded_with_origins(text: str) -> tuple[str, list[int]]:
    """Return a folded text, and the place of each of its characters in the text."""
    pieces, origins = [], []
    for chunk in _CHUNK.finditer(text):
        characters = chunk[0]
        piece = _FOLDING[ord(characters)] if len(characters) == 1 else _fold(characters)
        pieces.append(piece)
        origins += [chunk.start()] * len(piece)
    return "".join(pieces), [*origins, len(text)]


def _origin(origins: Sequence[int], first: int, last: int) -> tuple[int, int]:
    """Return the place of a word in the text, with the marks after it."""
    while last < len(origins) - 1 and origins[last] == origins[last - 1]:
        last += 1  # one character of the text has become several
    return origins[first], origins[last]


def _stemmer(language: str) -> Callable[[str], str]:
    """Return a function that returns the stem of a word of a text, folded."""
    with extra("search", "a search with stems"):
        import snowballstemmer
    known = snowballstemmer.algorithms()
    if language not in known:
        raise ConfigurationError(f"search: no language {language!r}{hint(language, known)}")

    def stem(word: str) -> str:
        # Marks belong to the endings that a language has.
        word = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", word).casefold())
        # One stemmer serves one thread, and making another costs nothing.
        return folded(snowballstemmer.stemmer(language).stemWord(word))

    return stem
