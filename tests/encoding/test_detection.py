"""What looks like a secret is found; what only looks random is left alone; and it takes linear time."""

from __future__ import annotations

import base64
import hashlib
import itertools
import random
import string
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.processor import at_most

from memoranda.encoding.detection import Finding, detect, hide, screen
from memoranda.service.core.secret_screening import PLAIN_VALUES
from memoranda.standards.openwop.redaction import convert_markers

ROOT = Path(__file__).parents[2]
BASE62 = string.ascii_letters + string.digits


def drawn(count: int, *, seed: int = 7, alphabet: str = BASE62) -> str:
    """Something random, made here so that no key stands in this file."""
    return "".join(random.Random(seed).choices(alphabet, k=count))


PEM_BODY = "\n".join(drawn(64, seed=n) for n in range(12))
KEYS = {
    "anthropic-key": "sk-ant-" + "api03-" + drawn(90),
    "openai-key": "sk-" + "proj-" + drawn(48),
    "stripe-key": "sk_" + "live_" + drawn(24),
    "stripe-webhook-secret": "whsec_" + drawn(32),
    "github-token": "gh" + "p_" + drawn(36),
    "gitlab-token": "gl" + "pat-" + drawn(20),
    "aws-access-key": "AK" + "IA" + drawn(16, alphabet=string.ascii_uppercase + "234567"),
    "slack-token": "xo" + "xb-" + "123456789012-" + drawn(24),
    "google-key": "AI" + "za" + drawn(35),
    "google-secret": "GOC" + "SPX-" + drawn(28),
    "sendgrid-key": "S" + "G." + drawn(22) + "." + drawn(43),
    "huggingface-token": "h" + "f_" + drawn(34),
    "npm-token": "np" + "m_" + drawn(36),
    "shopify-token": "shp" + "at_" + drawn(32, alphabet="0123456789abcdef"),
    "databricks-token": "da" + "pi" + drawn(32, alphabet="0123456789abcdef"),
    "vault-token": "hv" + "s." + drawn(90),
    "telegram-token": "123456789" + ":AA" + drawn(33),
    "groq-key": "gs" + "k_" + drawn(52),
    "age-secret-key": "AGE-SECRET-" + "KEY-1" + drawn(58, alphabet=string.ascii_uppercase),
    "memoranda-key": "mk" + "_" + drawn(13, alphabet="abcdef234567") + "_" + drawn(52, alphabet="abcdef234567"),
    "jwt": ".".join(("ey" + "JhbGciOiJIUzI1NiJ9", "ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0", drawn(43))),
    "ump-capability": "ump" + "cap." + "ey" + "JleHAiOiIyOTk5LTAxLTAxIn0." + "ed25519:" + drawn(86),
    "private-key": f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{PEM_BODY}\n-----END RSA PRIVATE {'KEY'}-----",
}


# What a link may be put together of, and how keys begin.
LINKS = st.lists(
    st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=13)
    | st.sampled_from("glpat- sk- hooks slack com services eyJ dp pt tfp_ whsec_ token secret= PIN: 4111 @".split()),
    max_size=9,
)


@given(st.sampled_from(["http://", "https://"]), LINKS, st.sampled_from([".", "/", "-", ""]), LINKS)
def test_nothing_of_a_shape_that_is_not_looked_into_is_a_secret(
    scheme: str, host: list[str], between: str, path: list[str]
) -> None:
    for link in (scheme + between.join(host), scheme + ".".join(host) + "/" + "/".join(path)):
        if PLAIN_VALUES.fullmatch(link):
            assert detect(link) == []
            assert detect(f"a password\n\n{link}\n\nis kept") == []
    assert PLAIN_VALUES.fullmatch("https://example.com/12345")


@pytest.mark.requirement("WOP-3-detector")
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("around", ["{}", "the key is {}.", '{{"key":"{}"}}', "({})", "\n{}\n", "KEY={} # prod"])
def test_a_key_of_a_known_vendor_is_found_wherever_it_stands(kind: str, around: str) -> None:
    text = around.format(KEYS[kind])
    (found,) = detect(text)
    assert text[found.start : found.end].rstrip(".") == KEYS[kind]
    assert found.kind in (kind, "named-secret")
    assert KEYS[kind] not in hide(text, [found])


# The text around a secret access key of AWS, {id} and {secret}.
AWS_TEXTS = [
    "{id} {secret}",
    "{secret}\n{id}",
    "Access key ID,Secret access key\n{id},{secret}\n",
    "[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}",
    '{{"AccessKeyId": "{id}", "SecretAccessKey": "{secret}", "Status": "Active"}}',
    "My AWS key is {id} and its secret is {secret}.",
    "the secret of my amazon account: '{secret}'",
    "export AWS_SECRET_ACCESS_KEY={secret}",
]


@pytest.mark.requirement("WOP-3-detector")
@pytest.mark.parametrize("around", AWS_TEXTS)
def test_the_secret_key_of_aws_is_found_beside_its_id_or_its_name(around: str) -> None:
    # One without much change of case, which is not random enough to be found alone, and random ones.
    secrets = ["AbcdefghijklmnopqrstuvwxyzABCDEFGHIJ/123"]
    secrets += [drawn(40, seed=seed, alphabet=BASE62 + "/+") for seed in range(40)]
    for secret in secrets:
        text = around.format(id=KEYS["aws-access-key"], secret=secret)
        assert secret not in hide(text, detect(text)), text


@pytest.mark.requirement("WOP-3-detector-quiet")
def test_hashes_and_paths_near_an_access_key_id_are_left_alone() -> None:
    key = KEYS["aws-access-key"]
    for near in (
        hashlib.sha1(b"x").hexdigest(),
        hashlib.sha1(b"x").hexdigest().upper(),
        "src/memoranda/standards/openwop/requests",
        "thequickbrownfoxjumpsoverthelazydogsagain",
    ):
        text = f"{key} was found in {near}"
        assert [text[each.start : each.end] for each in detect(text)] == [key]


@pytest.mark.requirement("WOP-3-detector")
def test_the_canary_of_the_conformance_suite_is_found() -> None:
    canary = "sk-canary-rfc0062-do-not-leak-qrs456"
    assert hide(f"secret {canary}", detect(f"secret {canary}")) == "secret [REDACTED:detected-openai-key]"


@pytest.mark.requirement("WOP-3-detector")
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgres://app:hunter2@db.internal/prod", "hunter2"),
        ("amqp://guest:S3cr%40t@mq:5672/", "S3cr%40t"),
        ("redis://:p4ssw0rd@cache:6379", "p4ssw0rd"),
        ("mongodb+srv://root:p@ssw0rd@cluster0/", "p@ssw0rd"),
        ("Server=db;User Id=sa;Password=Tr0ub4dor3;", "Tr0ub4dor3"),
        ("DB_PASSWORD=correct1horse", "correct1horse"),
        ('{"password": "hunter2hunter"}', "hunter2hunter"),
        ("export API_KEY='a1B2c3D4e5F6g7H8'", "a1B2c3D4e5F6g7H8"),
        ("access_token=9f8a7b6c5d4e3f2a1b0c", "9f8a7b6c5d4e3f2a1b0c"),
        ("Authorization: Bearer a1b2C3d4e5F6g7h8I9j0", "a1b2C3d4e5F6g7h8I9j0"),
    ],
)
def test_a_password_that_is_called_one_is_found_and_the_rest_is_kept(text: str, secret: str) -> None:
    found = detect(text)
    assert [text[each.start : each.end] for each in found] == [secret]
    assert len(hide(text, found)) > len(text) - len(secret)


@pytest.mark.requirement("WOP-3-detector")
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("The Wi-Fi password is Tr0ub4dor&3.", "Tr0ub4dor&3"),
        ("Her password for the router was hunter2now, I think", "hunter2now"),
        ("I changed the admin password to Summer!Rain", "Summer!Rain"),
        ("password: correct-horse-battery-staple", "correct-horse-battery-staple"),
        ('the passphrase is "open the pod bay doors"', "open the pod bay doors"),
        ("Das Passwort für den Server lautet Geheim123.", "Geheim123"),
        ("Le mot de passe du wifi est Soleil2024", "Soleil2024"),
        ("La contraseña es Gato2023!", "Gato2023!"),
        ("My card PIN is 4821", "4821"),
        ("the alarm code at home is 90 21 7", "90 21 7"),
        ("passcode: 734512", "734512"),
        ("CVV 123? no, the CVV is 918", "918"),
        ("pay with 4111 1111 1111 1111 until May", "4111 1111 1111 1111"),
        ("card 5555555555554444, exp 12/29", "5555555555554444"),
        ("amex 3782-822463-10005", "3782-822463-10005"),
        ("ALGOLIA_ADMIN=0123456789abcdef0a1b2c3d4e5f6071", "0123456789abcdef0a1b2c3d4e5f6071"),
        ("heroku: 'a1b2c3d4e5f60718293a4b5c6d7e8f90'", "a1b2c3d4e5f60718293a4b5c6d7e8f90"),
        ("secret_key_base: 9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c", "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"),
    ],
)
def test_what_people_tell_in_a_sentence_is_found_and_the_rest_is_kept(text: str, secret: str) -> None:
    assert [text[each.start : each.end] for each in detect(text)] == [secret]


@pytest.mark.requirement("WOP-3-detector")
@pytest.mark.parametrize("count", [32, 40, 64, 100])
def test_nearly_every_random_string_is_found(count: int) -> None:
    tokens = [drawn(count, seed=seed) for seed in range(300)]
    found = sum(bool(detect(f"it is {token} now")) for token in tokens)
    assert found >= 0.93 * len(tokens)


# --- what must not count -----------------------------------------------------------------------------


def _harmless() -> list[str]:
    made = random.Random(3)
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + made.randbytes(3000)).decode()
    blob = base64.b64encode(made.randbytes(2000)).decode()
    wrapped = "\n".join(blob[at : at + 76] for at in range(0, len(blob), 76))
    digest = base64.b64encode(hashlib.sha256(b"x").digest()).decode()
    quoted = "\n".join(f'    "{blob[at : at + 64]}"' for at in range(0, 640, 64))
    return [
        f"data:image/png;base64,{png}",
        f'<img src="data:image/svg+xml;charset=utf-8;base64,{blob}">',
        png,
        wrapped,
        quoted,
        f"-----BEGIN CERTIFICATE-----\n{wrapped}\n-----END CERTIFICATE-----",
        f"-----BEGIN PUBLIC KEY-----\n{wrapped}\n-----END PUBLIC KEY-----",
        f"integrity: sha256-{digest} sha512-{digest}",
        f"image@sha256:{hashlib.sha256(b'x').hexdigest()}",
        f"SHA256:{digest.rstrip('=')}",
        f"h1:{digest}",
        f"ed25519:{drawn(86)}",
        f"did:key:z6Mk{drawn(44)} and urn:ump:{drawn(52)}",
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{drawn(43)} me@host",
        f"https://docs.example.com/document/d/{drawn(44)}/edit",
        f"ipfs Qm{drawn(44, alphabet='123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz')}",
        "cursor:" + base64.urlsafe_b64encode(b'{"h":"sha256:607dc0522d1807","o":5,"v":1}').decode(),
        f"commit {hashlib.sha1(b'x').hexdigest()} and md5 {hashlib.md5(b'x').hexdigest()}",
        "0x52908400098527886E0F7030069857D2E4169EE7",
        *(f"Run-{uuid.UUID(int=made.getrandbits(128), version=4)}/Step-B2" for _ in range(200)),
        *(f"token: {uuid.UUID(int=made.getrandbits(128), version=4)}" for _ in range(200)),
        *(f"msg_01{drawn(22, seed=n)} KSUID {drawn(27, seed=n)} id {drawn(21, seed=n)}" for n in range(200)),
        *(f"{hashlib.sha256(bytes([n])).hexdigest()} {hashlib.sha1(bytes([n])).hexdigest()}" for n in range(200)),
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "2026-06-04T10:00:00.000Z",
        "AbstractSingletonProxyFactoryBean2WithMoreThings3AndOthers",
        "src/memoranda/standards/openwop/V2Model/HTTPServer3/Index.py",
        "use sk-learn-compatible-estimators-everywhere, or sk-fading-circle-container-2",
        "task-oriented-dialogue-systems-2024-edition-1",
        "postgres://user:password@host/db and postgres://$USER:$PASSWORD@host and redis://:<password>@h",
        "http://localhost:8080/path@2 and mailto:me@example.com and git@github.com:org/repo.git",
        "password: required; token: see below; secret: (none); api_key: YOUR_API_KEY; password=os.environ['DB1']",
        "PASSWORD=${DB_PASSWORD1} PASSWORD=%PASSWORD1% password={{vault.db1}} password=getpass1()",
        "password=[REDACTED:db-1] and token: [REDACTED:detected-named-secret]",
        "the file starts with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
        "The secret of good bread: 500 g flour, 350 ml water, 12h rest, 230C for 45min.",
        "Basic understanding of internationalization2 is enough.",
        "Réunion à 10h30 avec l'équipe, 会议在十点半开始。",
        "The password is stored hashed, and passwords are rotated on 2024-01-01 by node-3.",
        "Reset the password to log into server01; the password policy is at least 12 characters.",
        "password for db-prod-01 is in 1Password; the password is required, 'case-sensitive' and never logged.",
        "Das Passwort ist im Tresor. Le mot de passe est obligatoire. The passphrase is up to you.",
        "the access code path is hot; error code: 404; the PIN is soldered to pin 12; status code is 200",
        "order 4111111111111112, tracking 1Z9999999999999999, phone +49 170 1234567, ISBN 978-3-16-148410-0",
        "took 1700000000000000 ns at 1718000000123, ids 4000000000000000 and 12345678901234567890",
        "confluence page: internationalization-and-localization-guide, discord: general-chat-2024-room",
        "heroku: the-old-application-name-2 and mailgun domain=mg1.mail.example.org",
    ]


@pytest.mark.requirement("WOP-3-detector-quiet")
def test_ids_hashes_pictures_and_prose_are_left_alone() -> None:
    wrong = [(text[:60], found) for text in _harmless() if (found := detect(text))]
    assert wrong == []


@pytest.mark.requirement("WOP-3-detector-quiet")
def test_nothing_in_our_own_documentation_and_source_looks_like_a_secret() -> None:
    paths = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "README.md"]
    assert len(paths) > 100
    wrong = [(path.name, found) for path in paths if (found := detect(path.read_text(encoding="utf-8")))]
    assert wrong == []


# --- policy ------------------------------------------------------------------------------------------


def test_the_policy_decides_whether_to_look_to_tell_or_to_hide() -> None:
    text = f"key {KEYS['github-token']}"
    assert screen(text, "off") == (text, [])
    assert screen(text, "warn") == (text, [Finding("github-token", 4, len(text))])
    assert screen(text, "redact")[0] == "key [REDACTED:detected-github-token]"


def test_a_finding_never_holds_the_secret() -> None:
    assert drawn(36) not in repr(detect(KEYS["github-token"]))


@given(
    st.lists(
        st.sampled_from([*KEYS.values(), "password=", "token: ", " ", "\n", "a", "x@y", "://u:", "@h"]), max_size=6
    )
)
def test_what_was_hidden_is_not_found_again(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = detect(text)
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert all(left.end <= right.start for left, right in itertools.pairwise(found))
    hidden, told = screen(text, "redact")
    assert told == found
    assert detect(hidden) == []
    assert convert_markers(hidden) == hidden


@given(st.text(max_size=300))
def test_any_text_can_be_looked_at(text: str) -> None:
    assert hide(text, detect(text)).count("[REDACTED:detected-") >= len(detect(text))


HOSTILE = [
    "a",
    "sk-",
    "sk-a ",
    "eyJ",
    "eyJaaaaaaaaaaa.",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY----------END ",
    "-----BEGIN PRIVATE KEY-----" + "a: b\n" * 50,
    "a://",
    "aa://b:ccc",
    "aa://b:c@@@@@@@@@",
    "token=",
    "token=a1B2c3D4 ",
    "A" * 60 + "\n",
    "aB3dE5fG" * 9 + " ",
    "aB3dE5fG" * 9 + "\n",
    "data:a;b;c;d;base64,",
    "[REDACTED:",
    "[BYOK:",
    "<REDACTED:",
    "did:a:",
    "https://x/aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3 ",
    "=",
    "\\n",
    "xoxb-",
    "SG.aaaaaaaaaaaaaaaa.",
    "bearer ",
]


@pytest.mark.requirement("WOP-3-detector-linear")
@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    # A pattern that is quadratic would take half a minute for this, not a moment.
    text = unit * (200_000 // len(unit))
    with at_most(4):
        convert_markers(hide(text, detect(text)))


@given(
    st.one_of(
        st.uuids().map(str),
        st.sampled_from((32, 64)).flatmap(lambda size: st.text("0123456789abcdef", min_size=size, max_size=size)),
        st.datetimes().map(lambda at: at.isoformat() + "Z"),
    )
)
def test_names_and_times_of_documents_are_no_secrets(value: str) -> None:
    assert detect(value) == []
    assert detect(f"{value}\n\n{value}") == []
