"""The languages of texts: how a language is recognised, and its function words.

A language is recognised by its script, by letters that only few languages have, and by its function words. These are
the "stop words", which are not indexed. Nothing here knows of stemmers or terms (`analysis`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple

ENGLISH: Final = "en"

# The index of a language is its number in the word index, so only append.
LANGUAGE_CODES: Final = (
    *(
        "en",
        "de",
        "fr",
        "es",
        "pt",
        "it",
        "nl",
        "sv",
        "da",
        "no",
        "fi",
        "ru",
        "el",
        "ar",
        "hi",
        "ta",
        "tr",
        "hu",
    ),
    *(
        "ro",
        "pl",
        "cs",
        "ca",
        "id",
        "ja",
        "ko",
        "th",
        "zh",
        "vi",
        "uk",
        "bg",
        "sr",
        "fa",
        "ur",
        "he",
        "bn",
        "mr",
    ),
    *("te", "gu", "kn", "ml", "pa", "hy", "ka"),
)
LANGUAGE_NUMBERS: Final = {code: number for number, code in enumerate(LANGUAGE_CODES)}
_ALIASES: Final = {"nb": "no", "nn": "no", "iw": "he", "in": "id", "ms": "id"}
# English names of languages, which some documents state instead of a code.
_NAMES: Final = {
    "english": "en", "german": "de", "french": "fr", "spanish": "es", "portuguese": "pt", "italian": "it",
    "dutch": "nl", "swedish": "sv", "danish": "da", "norwegian": "no", "finnish": "fi", "russian": "ru",
    "greek": "el", "arabic": "ar", "hindi": "hi", "tamil": "ta", "turkish": "tr", "hungarian": "hu",
    "romanian": "ro", "polish": "pl", "czech": "cs", "catalan": "ca", "indonesian": "id", "japanese": "ja",
    "korean": "ko", "thai": "th", "chinese": "zh", "vietnamese": "vi", "ukrainian": "uk", "bulgarian": "bg",
    "serbian": "sr", "persian": "fa", "urdu": "ur", "hebrew": "he", "bengali": "bn", "marathi": "mr",
    "telugu": "te", "gujarati": "gu", "kannada": "kn", "malayalam": "ml", "punjabi": "pa", "armenian": "hy",
    "georgian": "ka",
}  # fmt: skip
# The languages of a script, most used first; by the first word of the Unicode names of its letters.
_SCRIPTS: Final = {
    "CYRILLIC": ("ru", "uk", "bg", "sr"),
    "GREEK": ("el",),
    "ARABIC": ("ar", "fa", "ur"),
    "DEVANAGARI": ("hi", "mr"),
    "TAMIL": ("ta",),
    "CJK": ("zh", "ja"),
    "HIRAGANA": ("ja",),
    "KATAKANA": ("ja",),
    "HANGUL": ("ko",),
    "THAI": ("th",),
    "HEBREW": ("he",),
    "BENGALI": ("bn",),
    "TELUGU": ("te",),
    "GUJARATI": ("gu",),
    "KANNADA": ("kn",),
    "MALAYALAM": ("ml",),
    "GURMUKHI": ("pa",),
    "ARMENIAN": ("hy",),
    "GEORGIAN": ("ka",),
}
_LATIN: Final = "LATIN"
# Letters that few languages of their script have.
_LETTERS: Final = {
    "de": "ß",
    "fr": "œ",
    "es": "ñ¿¡",
    "pt": "ãõ",
    "sv": "å",
    "da": "æøå",
    "no": "æøå",
    "tr": "ğış",
    "ro": "ășțţ",
    "pl": "łąężźćńś",
    "cs": "řěůďťňčžý",
    "hu": "őű",
    "vi": "đơưăạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "uk": "іїєґ",
    "bg": "ъ",
    "sr": "јљњћђџ",
    "fa": "پچگژیک",
    "ur": "ٹڈڑںہھےیک",
    "mr": "ळ",
    # Kana have their own scripts; these are the most frequent ones.
    "ja": "あいうおかがきくけこさしすせそただちってでとなにのはまもやよらりるれろわをん",
}
_LANGUAGES_BY_LETTER: Final[dict[str, tuple[str, ...]]] = {}
for _code, _letters in _LETTERS.items():
    for _letter in _letters:
        _LANGUAGES_BY_LETTER[_letter] = (*_LANGUAGES_BY_LETTER.get(_letter, ()), _code)
# Characters of a text in which its script is looked for.
_SCRIPT_CHARS: Final = 2_000
# Scripts in which a character is a syllable or a word, and the letters that it counts as.
_IDEOGRAPHIC: Final = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")
_LETTERS_PER_IDEOGRAPH: Final = 3

_FUNCTION_WORDS: Final = {
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
    "tr": """
acaba ama ancak artık asla aslında az bana bazı belki ben benden beni benim bile bir biraz birçok biri bize bizi
bizim bu buna bunda bundan bunlar bunu bunun çok çünkü da daha de değil diye dolayı en fakat gibi hangi hatta hem
hemen henüz hep her herkes hiç için ile ise işte kaç kadar kendi ki kim kime kimin mi mı mu mü nasıl ne neden nedir
nerede nereye niye olan olarak oldu olduğu olup ona ondan onlar onu onun oysa sana sen senin siz size sizin sonra
tüm ve veya ya yani yoksa var yok şu
""",
    "ro": """
acea această acei aceia acel acela acele acest acesta aceste aceștia acolo ai al ale alt alte am ar are asta astfel
atunci au avea aveau avut ca când care cărei căror cât câte câți ce cea cei cel cele ceva cine cu cui cum da dacă dar
de decât deci deja deoarece despre din dintre doar după ea ei el ele era erau este eu fi fie fiecare fiind fost iar
îi îl îmi în înainte încă între își la le li lor lui mai mult ne nici nimic nu ori pe pentru până prin printr sale
sau să se și spre sub sunt te toate tot toți un una unde unei unele unor unui unul va vor
""",
    "pl": """
aby ale bardzo bez bo był była było były być ci co czy dla do gdy gdzie go ich i ile im jak jaka jaki jakie jako je
jego jej jest jeszcze jeżeli jeśli już kiedy kto która które którego której który których którzy lub ma mi między
mnie można na nad nas nie nim niż o od on ona one oni oraz po pod podczas przed przez przy są się również sobie tak
także tam te tego tej ten to tu tych tylko tym u w we wszystko z za ze został została że
""",
    "cs": """
aby ale ani ano až bez bude budou by byl byla byli bylo být co což či do ho i jak jaké jako je jeho jej její jejich
jen jenž ještě ji již jsem jsme jsou k kde kdo kdy když kolik která které kterého který kteří má mají mezi mi mít mu
může na nad ne nebo není nich než o od on ona oni ono pak po pod podle pokud pouze pro proč proto protože před přes
při s se si své svůj ta tak také tam tato té tedy ten tento této tím to tohoto tom tomto tu tuto ty v ve však z za ze
že
""",
    "hu": """
a az és hogy nem is egy ez volt meg de csak el már még mint ha vagy van azt ezt ki mi mely melyik amely aki ami hol
mikor miért hogyan mennyi hány melyek után előtt között alatt fel le be át ezek azok volna lesz lett vannak voltak
szerint által ő ők neki nekem minden nagyon több most majd így úgy itt ott
""",
    "fi": """
ei en et että hän he ja joka jonka jossa jos jotka jo kun kuin kuka koska kanssa mikä mitä missä milloin miksi miten
minä minkä mutta myös ne nyt oli olivat olla ollut on ovat se sen siitä siinä sitä sekä sinä tai tämä tämän tässä vai
vain voi kuinka me te
""",
    "da": """
af alle at blev da de dem den der deres det din disse dog du efter eller en er et for fra ham han hans har havde
hende hendes her hos hun hvad hvem hvilken hvilke hvor hvordan hvorfor hvornår i ikke ind jeg kan man mange med meget
men mig min mod når ned nu og også om op over på selv sig sin skal skulle som til ud under var vi vil være blive
bliver
""",
    "no": """
av alle at ble bli da de dem den der deres det din disse du eller en er et etter for fra ham han hans har hadde
henne hennes her hos hun hva hvem hvilken hvilke hvor hvordan hvorfor når i ikke inn jeg kan man mange med mye men
meg min mot nå ned noen og også om opp over på selv seg sin skal skulle som til ut under var vi vil være
""",
    "id": """
ada adalah akan anda apa apakah atau bagaimana bagi bahwa banyak berapa bisa dalam dan dapat dari dengan di dia
hanya harus ia ini itu jika juga kami kapan karena ke kepada ketika kita lebih mana mengapa mereka oleh pada para saat
saja saya sebagai sebuah sebelum secara sejak selama seorang seperti serta setelah siapa suatu sudah telah tentang
tersebut tidak untuk yaitu yang
""",
    "ca": """
al als amb aquest aquesta aquests això aquí com de del dels des dins el els em en entre era es és està fins ha han hi
ho i jo la les li més meu molt ni no nosaltres o on per però perquè quan què qui quin quina quins se sense ser seu
seva si són també té tot un una unes uns va van vostè d l s n
""",
    "vi": """
và của là các có được trong cho một những với không này khi đã từ đến như ở tại vào ra về cũng theo bị trên nào gì ai
bao nhiêu đâu vì nên thì mà để còn đó rất phải sẽ đang hay hoặc nếu
""",
    "el": """
ο η το οι τα του της των τον την τους τις και κι να θα με σε για από στο στη στην στον στα στις στους που πως τι ποιος
ποια ποιο ποιοι πού πότε πόσο πόσα πόσες πόσοι γιατί είναι ήταν έχει έχουν είχε δεν μην ένα μια ένας μία ως αν ή αλλά
όταν όπως αυτό αυτή αυτός αυτά μου σου μας σας
""",
    "hi": """
का की के को में से है हैं था थी थे और पर ने यह वह इस उस कि जो तो भी ही एक लिए साथ क्या कौन कब कहाँ कहां कैसे कितना
कितने कितनी क्यों किस किसने किसके कर करने किया गया हो होता होती होने या तक द्वारा नहीं अपने उनके उनकी उसके इसके जब
""",
    "ar": """
في من على إلى عن مع أن إن كان كانت هذا هذه ذلك تلك التي الذي هو هي هم ما ماذا متى أين كيف لماذا كم هل و أو ثم قد لا لم
لن كل أي وقد وفي لقد ومن
""",
    "fa": """
و در به از که این آن را با است برای یک تا بر هم نیز شد بود چه کجا کی چرا چگونه چند آیا های می
""",
    "ur": """
کا کی کے کو میں سے ہے ہیں تھا تھی تھے اور پر نے یہ وہ اس کہ جو تو بھی ہی ایک لیے ساتھ کیا کون کب کہاں کیسے کیوں
""",
    "he": """
של את על עם הוא היא זה זו לא כי אם או גם יש אין היה הייתה מה מי איפה מתי למה איך כמה הם אל בין כל
""",
    "uk": """
і й та в у на з із зі до від за по про для як що це цей ця ці він вона воно вони ми ви не ні але або чи який яка яке
які де коли хто чому скільки був була було були є бути при під між також так його її їх
""",
    "bg": """
и в на с за от да се е са по като не до при или но ще този тази това тези той тя то те кой коя кое кои какво кога къде
защо как колко беше бяха
""",
    "sr": """
и у на се је да за од са су не као што по о али или који која које ко шта када где зашто како колико био била било
били није из до
""",
}


# Letters with a stroke or without a dot, which have no decomposition; keyboards without them have the plain ones.
_PLAIN_LETTERS: Final = str.maketrans("ıłđøħ", "ildoh")


def fold(text: str) -> str:
    """Return a text in lower case without accents and other combining marks."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold()).translate(_PLAIN_LETTERS)
    if any(unicodedata.combining(character) for character in decomposed):
        decomposed = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", decomposed)


# Folded words of a query that ask for the present state. They are searched only if a text has them.
NOW_WORDS: Final = frozenset(
    """
    now currently current latest newest nowadays presently present recent recently today's
    jetzt aktuell aktuelle aktueller aktuellen aktuelles derzeit zurzeit momentan neueste neuester neuesten zuletzt
    maintenant actuellement actuel actuelle actuels actuelles derniere dernier
    ahora actualmente actual ultimo ultima agora atualmente atual
    adesso attualmente attuale nu momenteel huidige nuvarande
    сейчас теперь текущий последний
    """.split()
)


class _StopWords(NamedTuple):
    """The function words of all languages, folded like the words that are looked up in them."""

    # The words that are not indexed, by language: its own and the English ones, which other texts often contain.
    excluded: Mapping[str, frozenset[str]]
    languages_by_word: Mapping[str, tuple[str, ...]]


@cache
def _load_stop_words() -> _StopWords:
    """Return the tables of stop words. They are built late: many commands analyse no text."""
    by_language = {
        code: frozenset(map(fold, text.split())) for code, text in _FUNCTION_WORDS.items()
    }
    languages_by_word: dict[str, tuple[str, ...]] = {}
    for code, words in by_language.items():
        for word in words:
            languages_by_word[word] = (*languages_by_word.get(word, ()), code)
    english = by_language[ENGLISH]
    excluded = {code: words | english for code, words in by_language.items()}
    return _StopWords(excluded, languages_by_word)


def stop_words(language: str) -> frozenset[str]:
    """Return the words that are not indexed in a language, folded."""
    excluded = _load_stop_words().excluded
    return excluded.get(language, excluded[ENGLISH])


def language_code(tag: str) -> str:
    """Return the code of a language tag such as "de-CH" or "German"; empty if the language is not supported."""
    name = tag.strip().lower().replace("_", "-").partition("-")[0]
    code = _NAMES.get(name) or _ALIASES.get(name, name)
    return code if code in LANGUAGE_NUMBERS else ""


def detect_language(folded: Iterable[str], text: str, *, minimum: int = 2) -> str:
    """Return the language of a text, given with its folded words: by its script, letters and stop words.

    A text in Latin letters is English unless another language has more evidence, and at least `minimum`.
    """
    letters = () if text.isascii() else _telling_letters(text)
    script = _LATIN if text.isascii() else _main_script(text)
    if script == _LATIN:
        return _most_likely(folded, letters, minimum)
    languages = _SCRIPTS.get(script, (ENGLISH,))
    if len(languages) == 1:
        return languages[0]
    counts = _count_evidence(folded, letters)
    # With equal evidence, the most used language wins.
    return max(languages, key=lambda code: (counts.get(code, 0), -languages.index(code)))


def _most_likely(folded: Iterable[str], letters: Iterable[str], minimum: int) -> str:
    """Return the language with the most evidence in Latin letters; English if there is too little."""
    counts = _count_evidence(folded, letters)
    best = max(counts, key=lambda code: (counts[code], code), default=ENGLISH)
    required = max(minimum, counts.get(ENGLISH, 0) + 1)
    return best if counts.get(best, 0) >= required else ENGLISH


def _count_evidence(folded: Iterable[str], letters: Iterable[str]) -> dict[str, int]:
    """Count the stop words, and the letters that few languages have, of each language."""
    counts: dict[str, int] = {}
    languages_by_word = _load_stop_words().languages_by_word
    for word in folded:
        for code in languages_by_word.get(word, ()):
            counts[code] = counts.get(code, 0) + 1
    for letter in letters:
        for code in _LANGUAGES_BY_LETTER[letter]:
            counts[code] = counts.get(code, 0) + 1
    return counts


def _telling_letters(text: str) -> set[str]:
    """Return the letters of a text that few languages have."""
    return {letter for letter in text[:_SCRIPT_CHARS].lower() if letter in _LANGUAGES_BY_LETTER}


def _main_script(text: str) -> str:
    """Return the script of most words of a text: Latin, unless another one has a third of its letters."""
    counts: dict[str, int] = {}
    for character in text[:_SCRIPT_CHARS]:
        if character.isalpha():
            script = _LATIN if character < "\u0250" else _script_of(character)
            counts[script] = counts.get(script, 0) + 1
    latin = counts.pop(_LATIN, 0)
    for script in _IDEOGRAPHIC:
        if script in counts:
            counts[script] *= _LETTERS_PER_IDEOGRAPH
    if not counts or 2 * max(counts.values()) < latin:
        return _LATIN
    return max(counts, key=lambda script: (counts[script], script))


@lru_cache(maxsize=4_096)
def _script_of(character: str) -> str:
    """Return the script of a letter: the first word of its Unicode name."""
    return unicodedata.name(character, _LATIN).partition(" ")[0]
