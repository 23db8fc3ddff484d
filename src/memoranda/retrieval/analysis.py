"""Text analysis: texts and queries to search words, exact terms and names. Pure, and the same for every database.

A text is analysed in its own language, which its memory declares, or which is detected by its script or its stop words.
Languages with a Snowball stemmer are stemmed; other texts are analysed like English ones, which changes few of their
words. A text is split into words, folded, freed of stop words, stemmed. A query is
analysed in all languages of the texts that it searches: each word has one or more spellings, and matches any of them.
Scripts without spaces (Chinese, Japanese, Korean, Thai …) are cut into overlapping pairs of characters. Identifiers and
paths (`parseInstant`, `parse_instant`, `src/app.py`) are found by their parts and as a whole.

A query may contain exact terms: phrases (`"database is locked"`) and prefixes (`pnp*`). The index has no positions, so
it only narrows the candidates of a phrase, and the text itself decides.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final, NamedTuple

import Stemmer

# The version of the analysis. Raise it with every change of what is indexed: older segments are then rebuilt.
ANALYSIS: Final = 6

# Characters: longer words are noise (base64, hashes).
WORD_CHARS_LIMIT: Final = 64
# Words of a text that are indexed: a longer text is a file, not a memory.
WORDS_LIMIT: Final = 20_000
# Words of a query: a longer one is a pasted page, and each word costs a lookup.
QUESTION_WORDS_LIMIT: Final = 64
# Characters of a prefix that are indexed; shorter prefixes are not supported.
PREFIX_CHARS: Final = 3

WORD: Final = re.compile(r"[^\W_]+")
# The words of a text in lower-case ASCII; faster than WORD.
_PLAIN_WORD: Final = re.compile(r"[a-z0-9]+")
_UNSPACED: Final = (
    r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    r"\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Identifiers and paths: `parse_instant`, `no-floating-promises`, `src/app.py`, `parseInstant`.
# The look-behind makes a match begin where a word does; otherwise the time would be quadratic in the length of a word.
_JOINED: Final = re.compile(
    r"(?<![^\W_])(?:[^\W_]++(?:[-_./]++[^\W_]++)+|[^\W_]*(?:[a-z][A-Z]|[A-Z]{2}[a-z]{2})[^\W_]*)"
)
# The boundaries in `parseInstant` and `HTTPServer`, and a test for them.
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_HUMPED: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
# English contractions: she's, don't, they've.
_CONTRACTED: Final = re.compile(r"(?<=\w)['’](?:s|t|d|m|re|ve|ll)\b", re.IGNORECASE)
# Punctuation around words. Other signs distinguish words: "C#" is not "C", "-5" is not "5".
_MARKS: Final = ".,;:!?\"'()…“”‘’"
_MARKED: Final = re.compile(f"[{_MARKS}]")
# `pnp*` in a query.
PREFIX_QUERY: Final = re.compile(rf"(?<!\S)([^\W_]{{{PREFIX_CHARS},{WORD_CHARS_LIMIT}}})\*(?!\S)")
_QUOTES: Final = '"“”„«»「」『』'
_PHRASE: Final = re.compile(f"[{_QUOTES}]([^{_QUOTES}]{{1,200}})[{_QUOTES}]")
# Phrases, and prefixes, of a query: for each, candidate texts are read.
_EXACT_LIMIT: Final = 8
# "Ada: …", "Ada Lovelace: …": up to three capitalised words and a colon, as in chat logs.
_SPEAKER: Final = re.compile(
    r"(?P<first>[^\W\d_a-z][\w'’.-]{0,40})(?: [^\W\d_a-z][\w'’.-]{0,40}){0,2}: "
)
_NAME: Final = re.compile(r"[^\W\d_]{2,40}")
# Kinds of subjects that are persons. A subject without kind is a person if it is capitalised: "zeppelin" is none.
_PERSON_KINDS: Final = ("person", "people", "user", "contact")
# Words of a query that are looked up as names: a longer query is a pasted page.
_NAMES_LIMIT: Final = 64


# --- languages ------------------------------------------------------------------------------------------------

ENGLISH: Final = "en"

# The stemmer of each language. The index of a language is its number in the word index, so only append.
_STEMMERS: Final = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "pt": "portuguese",
    "it": "italian",
    "nl": "dutch",
    "sv": "swedish",
    "da": "danish",
    "no": "norwegian",
    "fi": "finnish",
    "ru": "russian",
    "el": "greek",
    "ar": "arabic",
    "hi": "hindi",
    "ta": "tamil",
    "tr": "turkish",
    "hu": "hungarian",
    "ro": "romanian",
    "pl": "polish",
    "cs": "czech",
    "ca": "catalan",
    "id": "indonesian",
}
LANGUAGE_NUMBERS: Final = {code: number for number, code in enumerate(_STEMMERS)}
STEMMED_LANGUAGES: Final = tuple(_STEMMERS)
# The supported languages: those with a stemmer, and those that are cut into pairs of characters.
LANGUAGES: Final = tuple(sorted((*STEMMED_LANGUAGES, "ja", "ko", "th", "zh")))
_ALIASES: Final = {"nb": "no", "nn": "no"}
# The language of a script that is used by one language, or mostly by one; by the Unicode name of the script.
_SCRIPTS: Final = {
    "CYRILLIC": "ru",
    "GREEK": "el",
    "ARABIC": "ar",
    "DEVANAGARI": "hi",
    "TAMIL": "ta",
}

_LITTLE: Final = {
    "en": """
a about above after again all also am an and any are as at be because been before being below
between both but by can could did do does doing down during each few for from further had has have
having he her here hers herself him himself his how i if in into is it its itself just me more most
my myself no nor not now of off on once only or other our ours ourselves out over own same she
should so some such than that the their theirs them themselves then there these they this those
through to too under until up very was we were what when where which while who whom why will with
would you your yours yourself yourselves
""",
    "de": """
aber als am an auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem den denn der des die dies
diese dieser dieses doch dort du durch ein eine einem einen einer eines er es euch euer fur hab habe haben hat hatte
hier ich ihm ihn ihr ihre ihrem ihren ihrer im in ins ist ja jede jeden jeder jedes kann kein keine konnen man mein
meine mich mir mit muss nach nicht noch nur ob oder ohne sehr sein seine seinem seinen seiner sich sie sind so soll
uber um und uns unser unsere unter vom von vor war waren warum was weil welche welchem welchen welcher welches wenn
wer werden wie wir wird wo wurde wurden zu zum zur zwischen wann woher wohin gibt bekommt darf durfen hatten mussen
musste sollte wollen will gab geht ging
""",
    "fr": """
a ai as au aux avec avons c ce ces cet cette ceux comment combien d dans de des du elle elles en es est et etait
ete etre eu eux fait faut il ils j je jusqu l la le les leur leurs lui m ma mais me meme mes moi mon n ne nos notre
nous on ont ou par pas pour pourquoi puis qu quand que quel quelle quelles quels qui quoi s sa sans se ses si son
sont sous sur t ta te tes toi ton tu un une vos votre vous y avait ayant etaient sera suis cela ca donc chez plus
tres quelqu lorsqu puisqu ni
""",
    "es": """
al algo ante antes como con contra cual cuando cuanto de del desde donde dos e el ella ellas ellos en entre era es
esa ese eso esta estan estar este esto estos fue ha hay la las le les lo los mas me mi mis mucho muy nada ni no nos
nosotros nuestra nuestro o os otra otro para pero por porque que quien quienes se ser si sin sobre son su sus
tambien te tiene todo tu tus un una uno unos y ya yo cuantos cuantas
""",
    "pt": """
ao aos aquela aquele aquilo as ate com como da das de dela dele depois do dos e ela elas ele eles em entre era essa
esse esta este eu foi ha isso isto ja lhe mais mas me mesmo meu minha muito na nas nem no nos nossa nosso num numa
nao o os ou para pela pelo pelos por qual quando quanto quantos que quem se sem ser seu seus sua suas sao tambem te
tem um uma umas uns voce onde quantas
""",
    "it": """
a ad agli ai al alla alle allo anche che chi ci come con cosa cui da dagli dai dal dalla dei del della delle dello
di dove e ed era gli ha hanno i il in io la le lei li lo loro lui ma mi mia mio ne negli nei nel nella non noi nostro
o per perche piu quale quali quando quanto quella quello questa questo se sei si sono su sua sue sugli sui sul sulla
suo ti tra tu tuo tutto un una uno voi vostro
""",
    "nl": """
aan als al bij dan dat de der deze die dit doen door een en er geen had heb heeft het hem hier hij hoe hun iets ik in
is ja je kan kon maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder ons ook op over reeds
te tegen toch toen tot u uit uw van veel voor waar wanneer want waren was wat we wel werd wie wij worden wordt zal ze
zei zelf zich zij zijn zo zonder zou
""",
    "sv": """
alla allt att av blev bli blir da dar de dem den denna deras dess det detta dig din dina dit du efter ej eller en er
ett for fran han har hans hon hur i icke ingen inom inte ja jag kan med mellan men mig min mina mot mycket nagon nar
ni nu och om oss pa sa sedan sig sin sina ska skulle som till under upp ut utan vad var varfor vart vem vi vid vilka
vilken vilket ar ager hade
""",
    "ru": """
а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для до его ее если есть
еще же за здесь и из или им их к как ко когда кто ли либо мне может мы на надо наш не него нее нет ни них но ну о об
однако он она они оно от очень по под при с со так также такой там те тем то того тоже той только том ты у уже хотя
чего чей чем что чтобы чье чья эта эти это я
""",
}


def fold(text: str) -> str:
    """Return a text in lower case without accents and other combining marks."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    if any(unicodedata.combining(character) for character in decomposed):
        decomposed = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", decomposed)


# Folded, like the words that are looked up in them.
STOP_WORDS: Final = {code: frozenset(map(fold, text.split())) for code, text in _LITTLE.items()}
# The words that are not indexed: texts in other languages often contain English.
_EXCLUDED: Final = {code: words | STOP_WORDS[ENGLISH] for code, words in STOP_WORDS.items()}


def _languages_by_stop_word() -> dict[str, tuple[str, ...]]:
    languages: dict[str, tuple[str, ...]] = {}
    for code, words in STOP_WORDS.items():
        for word in words:
            languages[word] = (*languages.get(word, ()), code)
    return languages


_LANGUAGES_BY_STOP_WORD: Final = _languages_by_stop_word()


def stop_words(language: str) -> frozenset[str]:
    """Return the words that are not indexed in a language, folded."""
    return _EXCLUDED.get(language, STOP_WORDS[ENGLISH])


def language_code(tag: str) -> str:
    """Return the code of a language tag such as "de-CH" or "German"; empty if there is no stemmer for it."""
    name = tag.strip().lower().replace("_", "-").partition("-")[0]
    code = _ALIASES.get(name, name)
    if code in LANGUAGE_NUMBERS:
        return code
    return next((other for other, stemmer in _STEMMERS.items() if stemmer == code), "")


def detect_language(folded: Iterable[str], text: str, *, minimum: int = 2) -> str:
    """Return the language of a text, given with its folded words: by its script, else by its stop words.

    It is English unless another language has more of its stop words, and at least `minimum`.
    """
    if not text.isascii():
        for character in text:
            if character > "\u036f" and character.isalpha():
                script = unicodedata.name(character, "").partition(" ")[0]
                if script in _SCRIPTS:
                    return _SCRIPTS[script]
                if script != "LATIN":
                    break
    matches = [codes for word in folded if (codes := _LANGUAGES_BY_STOP_WORD.get(word))]
    if len(matches) < minimum:
        return ENGLISH
    counts: dict[str, int] = {}
    for codes in matches:
        for code in codes:
            counts[code] = counts.get(code, 0) + 1
    best = max(counts, key=lambda code: (counts[code], code), default=ENGLISH)
    required = max(minimum, counts.get(ENGLISH, 0) + 1)
    return best if counts.get(best, 0) >= required else ENGLISH


_thread: Final = threading.local()


@lru_cache(maxsize=131_072)
def stem(word: str, language: str = ENGLISH) -> str:
    """Return the folded stem of a word in lower case. Stemmers need the accents, so these are removed last."""
    # A stemmer has internal buffers, so each thread has its own.
    stemmers: dict[str, Stemmer.Stemmer] | None = getattr(_thread, "stemmers", None)
    if stemmers is None:
        stemmers = _thread.stemmers = {}
    stemmer = stemmers.get(language)
    if stemmer is None:
        stemmer = stemmers[language] = Stemmer.Stemmer(_STEMMERS.get(language, "english"), 0)
    stemmed: str = stemmer.stemWord(fold(word) if language == ENGLISH else word)
    return fold(stemmed)


# --- texts -----------------------------------------------------------------------------------------------


class AnalysedText(NamedTuple):
    """An analysed text: its search words in order, with repetitions, and its language."""

    words: list[str]
    language: str
    # The prefix terms of its words.
    prefixes: frozenset[str] = frozenset()


def keywords(text: str) -> list[str]:
    """Return the search words of a text in order, with repetitions."""
    return analyse(text).words


def analyse(text: str, language: str = "") -> AnalysedText:
    """Return the analysis of a text in the language that its memory declares; empty to detect it."""
    tokens, identifiers, language = tokenize(text, language)
    words: list[str] = []
    prefixes: set[str] = set()
    for token in tokens:
        terms, prefix = terms_of_token(token, language)
        words.extend(terms)
        prefixes.add(prefix)
        if len(words) >= WORDS_LIMIT:
            break
    return AnalysedText([*words, *identifiers][:WORDS_LIMIT], language, frozenset(prefixes))


def tokenize(text: str, language: str = "") -> tuple[list[str], list[str], str]:
    """Return the words of a text in lower case without stop words, its identifiers as a whole, and its language."""
    tokens, identifiers = _split(text)
    folded = tokens if text.isascii() else [fold(token) for token in tokens]
    declared = language_code(language) if language else ""
    language = declared or detect_language(folded, text)
    excluded = stop_words(language)
    content_tokens = [
        token
        for token, folded_token in zip(tokens, folded, strict=True)
        if folded_token not in excluded
    ]
    return content_tokens, identifiers, language


def terms_of_token(token: str, language: str) -> tuple[list[str], str]:
    """Return the search words of a word, mostly one, and its prefix term."""
    folded = fold(token)
    return _terms(token, folded, language), prefix_term(folded)


def normalised_text(text: str) -> str:
    """Return a text without case, repeated spaces and punctuation around words; equal for duplicates."""
    words = text.casefold().split()
    if _MARKED.search(text) is not None:
        words = [stripped for word in words if (stripped := word.strip(_MARKS))]
    return " ".join(words)


def english_keywords(text: str) -> list[str]:
    """Return the search words of a text by the rules of English, by which consolidation compares statements."""
    tokens = (token for token in WORD.findall(fold(text)) if token not in STOP_WORDS[ENGLISH])
    return [term for token in tokens for term in _terms(token, token, ENGLISH)][:WORDS_LIMIT]


@cache
def unspaced_pattern() -> re.Pattern[str]:
    """Return the pattern of scripts without spaces. It is compiled late, because that is slow and seldom needed."""
    return re.compile(_UNSPACED)


def prefix_term(word: str) -> str:
    """Return the term under which all words with the same prefix are indexed. The star keeps it apart from words."""
    return f"{word[:PREFIX_CHARS]}*"


def _split(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text in lower case, with identifiers split, and the identifiers as a whole."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if "'" in text or "’" in text:
        text = _CONTRACTED.sub(" ", text)
    pattern = _PLAIN_WORD if text.isascii() else WORD
    # Most parts are single words. To sort these out is much faster than to search them.
    parts = [part for part in text.split() if not (part.isalnum() and part[1:].islower())]
    joined = [identifier for part in parts for identifier in _JOINED.findall(part)]
    if not joined:
        return pattern.findall(text.lower()), []
    terms = ["".join(WORD.findall(fold(identifier))) for identifier in joined]
    identifiers = [term for term in terms if len(term) <= WORD_CHARS_LIMIT and not term.isdigit()]
    spaced = _HUMP.sub(" ", text) if _HUMPED.search(text) else text
    return pattern.findall(spaced.lower()), identifiers


def _terms(token: str, folded: str, language: str) -> list[str]:
    """Return the search words of a word; none if it is too long."""
    if not token.isascii() and unspaced_pattern().search(folded):
        return _cut_pairs(token, language)
    if len(token) > WORD_CHARS_LIMIT:
        return []
    # Numbers have no stem, and there are too many of them for the cache of stems.
    is_number = token.isdigit() and token.isascii()
    return [token] if is_number else [stem(token, language)]


def _cut_pairs(token: str, language: str) -> list[str]:
    """Cut the parts of a word in a script without spaces into pairs of characters, and stem the other parts."""
    terms: list[str] = []
    end = 0
    for run in unspaced_pattern().finditer(token):
        if run.start() > end:
            terms.append(stem(token[end : run.start()], language))
        characters = run[0]
        terms.extend(characters[index : index + 2] for index in range(max(1, len(characters) - 1)))
        end = run.end()
    if end < len(token):
        terms.append(stem(token[end:], language))
    return [term for term in terms if len(term) <= WORD_CHARS_LIMIT]


# --- queries ---------------------------------------------------------------------------------------------


class QueryWord(NamedTuple):
    """A word of a query: its spellings in the index."""

    terms: tuple[str, ...]
    # True to drop it if no text has it, because its parts or its prefix are words of the query, too.
    is_optional: bool = False


def query_words(text: str, languages: Iterable[str] = STEMMED_LANGUAGES) -> list[QueryWord]:
    """Return the words of a query, each with its spellings in some languages."""
    tokens, identifiers = _split(text)
    folded_tokens = [fold(token) for token in tokens]
    excluded = stop_words(detect_language(folded_tokens, text, minimum=1))
    codes = dict.fromkeys((ENGLISH, *languages))
    starred = {fold(prefix) for prefix in PREFIX_QUERY.findall(text)}
    # A dict keeps the order and drops duplicates.
    words: dict[QueryWord, None] = {}
    for token, folded in zip(tokens, folded_tokens, strict=True):
        if folded in excluded:
            continue
        # Also without accents, as a keyboard without them writes it.
        written_forms = tuple(dict.fromkeys((token, folded)))
        spellings = [_terms(form, folded, code) for code in codes for form in written_forms]
        # A word that is cut into pairs becomes several words of the query.
        for terms in zip(*spellings, strict=False):
            words[QueryWord(tuple(dict.fromkeys(terms)), folded in starred)] = None
    for identifier in identifiers:
        words[QueryWord((identifier,), is_optional=True)] = None
    return list(words)[:QUESTION_WORDS_LIMIT]


def query_terms(text: str) -> frozenset[str]:
    """Return all spellings of all words of a query in any language."""
    return frozenset(term for word in query_words(text) for term in word.terms)


class ExactTerms(NamedTuple):
    """The phrases and prefixes of a query, as `searchable_text` returns them."""

    phrases: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    # True if the query has nothing else: then only texts with all of them are results.
    is_exclusive: bool = False

    def __bool__(self) -> bool:
        return bool(self.phrases or self.prefixes)

    def matches(self, text: str) -> bool:
        """Return True if a text has all phrases and prefixes."""
        searchable = searchable_text(text)
        return all(has_phrase(searchable, phrase) for phrase in self.phrases) and all(
            has_prefix(searchable, prefix) for prefix in self.prefixes
        )

    def rejects(self, text: str) -> bool:
        """Return True if a text cannot be a result, because the query is exclusive and the text does not match."""
        return self.is_exclusive and not self.matches(text)


def exact_terms(query: str) -> ExactTerms:
    """Return the phrases and prefixes of a query."""
    quoted = (searchable_text(match[1]) for match in _PHRASE.finditer(query))
    phrases = [phrase for phrase in quoted if phrase]
    unquoted = _PHRASE.sub(" ", query)
    prefixes = [fold(match[1]) for match in PREFIX_QUERY.finditer(unquoted)]
    other_words = [fold(word) for word in WORD.findall(PREFIX_QUERY.sub(" ", unquoted))]
    excluded = stop_words(detect_language(other_words, unquoted, minimum=1))
    return ExactTerms(
        tuple(dict.fromkeys(phrases))[:_EXACT_LIMIT],
        tuple(dict.fromkeys(prefixes))[:_EXACT_LIMIT],
        excluded.issuperset(other_words) and bool(phrases or prefixes),
    )


def searchable_text(text: str) -> str:
    """Return the folded words of a text, separated by spaces; in scripts without spaces every character is a word."""
    normalised = unicodedata.normalize("NFKC", text)
    spaced = unspaced_pattern().sub(lambda run: f" {' '.join(run[0])} ", normalised)
    return " ".join(fold(word) for word in WORD.findall(spaced))


def has_phrase(text: str, phrase: str) -> bool:
    """Return True if a searchable text has a phrase; both as `searchable_text` returns them."""
    return f" {phrase} " in f" {text} "


def has_prefix(text: str, prefix: str) -> bool:
    """Return True if a word of a searchable text begins with a prefix."""
    return f" {prefix}" in f" {text}"


# --- names -----------------------------------------------------------------------------------------------


def speaker_of(text: str) -> str:
    """Return the folded first name of the speaker ("Ada: …"); empty if there is none."""
    match = _SPEAKER.match(text)
    return "" if match is None else fold(match["first"])


def name_of(subject: str) -> str:
    """Return the folded first name in a subject such as "person:ada-7" or "Ada Lovelace"; empty if it is no person."""
    prefix, _, name = subject.rpartition(":")
    kind = prefix.rpartition(":")[2].lower()
    is_person = kind in _PERSON_KINDS or name[:1].isupper()
    match = _NAME.search(name) if is_person else None
    return "" if match is None else fold(match[0])


def names_in(text: str) -> tuple[str, ...]:
    """Return all words of a query that may be names, folded."""
    return tuple(dict.fromkeys(fold(match[0]) for match in _NAME.finditer(text)))[:_NAMES_LIMIT]
