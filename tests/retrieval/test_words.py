"""The search words of a text, and of a question about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis import AnalysedText, analyse, keywords, query_terms, query_words, stem
from memoranda.retrieval.languages import LANGUAGE_CODES, fold


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The deploys ran, twice: v2.", ["deploy", "ran", "twice", "v2"]),
        # What folds to letters without marks, capitals among them, is split like what was written so.
        ("Café ℂ ㎏", ["cafe", "c", "kg"]),
        ("She's sure they don't, and I'll see", ["sure", "don", "see"]),
        ("", []),
    ],
)
def test_a_text_is_folded_split_and_stemmed(text: str, found: list[str]) -> None:
    assert keywords(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("parse_instant", ["pars", "instant", "parseinstant"]),
        ("parseInstant", ["pars", "instant", "parseinstant"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("no-floating-promises", ["float", "promis", "nofloatingpromises"]),
        ("db.pool.max-connections", ["db", "pool", "max", "connect", "dbpoolmaxconnections"]),
        ("src/app/time/instant.py", ["src", "app", "time", "instant", "py", "srcapptimeinstantpy"]),
        # Numbers and plurals of capitals are no names of code.
        ("1.5 2025-03-14 TVs", ["1", "5", "2025", "03", "14", "tvs"]),
    ],
)
def test_a_name_of_code_is_found_by_its_parts_and_as_a_whole(text: str, found: list[str]) -> None:
    assert keywords(text) == found


@pytest.mark.parametrize("other", ["parse_instant", "parse-instant", "ParseInstant", "parse.instant", "parse/instant"])
def test_a_name_of_code_is_the_same_however_it_is_put_together(other: str) -> None:
    assert keywords(other) == keywords("parseInstant")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Use pnpm, never npm", "en"),
        ("Der Schlüssel liegt unter dem Blumentopf", "de"),
        ("La clé est derrière la porte", "fr"),
        ("La llave está en el cajón", "es"),
        ("A chave da garagem fica ao lado do fogão", "pt"),
        ("La chiave della cantina è nel cassetto", "it"),
        ("De sleutel ligt onder het bed van oma", "nl"),
        ("Nyckeln ligger under det tredje locket och är blå", "sv"),
        ("Ключ лежит под ковриком", "ru"),
        ("Το κλειδί είναι στο συρτάρι", "el"),
        # One little word of another language is not enough, and English is what is left.
        ("See ya, Nate", "en"),
        ("清明节全家去了杭州", "zh"),
        ("新宿の店は八時に開きます", "ja"),
        ("회의는 두 시에 시작합니다", "ko"),
        ("ผู้ใช้ชอบดื่มชาเขียว", "th"),
        ("Người dùng thích trà xanh", "vi"),
        ("Raporların PDF olarak gönderilmesini istiyor", "tr"),
        ("Care este numele orașului în care locuiește", "ro"),
        ("Użytkownik woli krótkie listy i nie lubi długich", "pl"),
        ("Uživatel chce dostávat zprávy každý týden", "cs"),
        ("A felhasználó nem szereti a hosszú leveleket", "hu"),
        ("Pengguna tidak suka rapat yang panjang", "id"),
        ("Користувач їсть тільки овочі", "uk"),
        ("کاربر چای سبز را دوست دارد", "fa"),
        ("صارف کو سبز چائے پسند ہے", "ur"),
        ("המשתמש אוהב תה ירוק", "he"),
        ("उपयोगकर्ता शाकाहारी भोजन पसंद करता है", "hi"),
        ("ব্যবহারকারী সবুজ চা পছন্দ করেন", "bn"),
        # A name or a symbol in another script is no other language.
        ("The parameter α is called learning rate", "en"),
        ("用户喜欢 TypeScript 和 pnpm", "zh"),
        ("", "en"),
    ],
)
def test_a_language_is_told_by_script_or_little_words(text: str, language: str) -> None:
    assert analyse(text).language == language


@pytest.mark.parametrize("tag", ["de", "DE", "de-CH", "de_AT", "German"])
def test_what_a_memory_says_of_its_language_holds(tag: str) -> None:
    assert analyse("Fahrräder", tag) == AnalysedText(["fahrrad"], "de", frozenset({"fah*"}))


@pytest.mark.parametrize("tag", ["xx", "klingon", "-", "  "])
def test_a_language_that_nobody_knows_is_told_by_the_text(tag: str) -> None:
    assert analyse("Der Hund und die Katze", tag).language == "de"


@pytest.mark.parametrize(
    ("memory", "question"),
    [
        ("Die Fahrräder sind im Keller", "Fahrrad"),
        ("Die Fahrräder sind im Keller", "fahrraeder"),
        ("Der Schlüssel liegt auf dem Tisch", "schlussel"),
        ("La clé est derrière la porte", "clés"),
        ("La clé est derrière la porte", "cles"),
        ("La estación de los trenes", "estaciones tren"),
        ("O avião das férias", "avião"),
        ("Книги лежат на столе", "книга"),
        ("清明节全家去了杭州", "杭州"),
        # Vowel signs are parts of words.
        ("उपयोगकर्ता शाकाहारी भोजन पसंद करता है", "शाकाहारी"),
        ("ผู้ใช้ชอบดื่มชาเขียวในตอนเช้า", "ชาเขียว"),
        ("Işık kapının sağında", "isik"),
        ("connections of the pool", "connection"),
    ],
)
def test_a_question_finds_a_memory_in_its_language(memory: str, question: str) -> None:
    indexed = analyse(memory)
    assert query_terms(question) & set(indexed.words)
    spelt = query_words(question, [indexed.language])
    assert any(term in indexed.words for word in spelt for term in word.terms)


def test_a_question_of_english_memories_spells_every_word_one_way() -> None:
    assert [word.terms for word in query_words("Which bicycles were stolen?", ["en"])] == [("bicycl",), ("stolen",)]


def test_a_name_as_a_whole_is_optional_in_a_question() -> None:
    assert [(word.terms, word.is_optional) for word in query_words("well-known", ["en"])] == [
        (("well",), False),
        (("known",), False),
        (("wellknown",), True),
    ]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


CONTENT = "Fahrräder clés estaciones férias biciclette fietsen книги κλειδιά 杭州西湖 parse_instant HTTPServer app.py"


@given(st.lists(st.sampled_from(CONTENT.split()), max_size=8), st.sampled_from(("", *LANGUAGE_CODES)))
def test_a_question_with_the_words_of_a_memory_has_them_all(held: list[str], language: str) -> None:
    indexed = analyse(" ".join(held), language)
    spelt = {term for word in query_words(" ".join(held), [indexed.language]) for term in word.terms}
    assert set(indexed.words) <= spelt


@given(TEXTS)
def test_words_are_folded_and_bounded(text: str) -> None:
    for word in keywords(text):
        assert 0 < len(word) <= 64
        assert not any(character.isspace() for character in word)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_short_way_for_plain_letters_finds_what_the_other_finds(text: str) -> None:
    # A word of another script turns the whole text to the other way; it adds itself and nothing else.
    assert sorted([*analyse(text, "en").words, "寿"]) == sorted(analyse(f"{text} 寿", "en").words)


def test_numbers_are_read_alike_in_every_language_and_none_is_kept() -> None:
    before = stem.cache_info().currsize
    assert [word.terms for word in query_words(" ".join(map(str, range(7_000, 7_050))))] == [
        (str(n),) for n in range(7_000, 7_050)
    ]
    assert keywords("7100 7200") == ["7100", "7200"]
    assert stem.cache_info().currsize == before


@pytest.mark.parametrize("query", ["Ada", "one", "Ada tea"])
def test_one_function_word_of_another_language_is_searched_if_a_text_has_it(query: str) -> None:
    """In Indonesian "ada" means "there is", and in Polish "one" means "they"; but one word is little evidence."""
    (first, *_) = query_words(query)
    assert fold(query.split()[0]) in first.terms
    assert first.is_optional
