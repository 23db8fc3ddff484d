"""The languages of texts: detection, stop words and stemming.

The language of a text is declared by its memory, or detected by its script or its stop words. Languages with a Snowball
stemmer are stemmed. Other texts are analysed like English ones, which changes few of their words.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import Stemmer

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
