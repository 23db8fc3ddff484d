"""Patterns of keys that vendors issue, by their prefixes; `detection` applies them to long words.

The patterns are in one alternation (KNOWN) that is fast because it has no groups; the vendor is found out afterwards
for the few matches. A prefix must be so characteristic that ordinary words do not match: a false hit warns, or removes
words, in somebody's memory. To add a vendor, add its pattern with an invented key to the tests, and no real one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

# Prefixes of credentials by vendor, from the vendors' public documentation of their formats.
_VENDORS: Final = (
    ("1password-key", r"A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}+"),
    ("1password-token", r"ops_eyJ[A-Za-z0-9+/=]{60,}+"),
    ("adobe-secret", r"p8e-[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("airtable-token", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    ("alibaba-key", r"LTAI[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    ("artifactory-key", r"AKCp[A-Za-z0-9]{60,}+"),
    ("atlassian-token", r"ATATT3[A-Za-z0-9_=-]{60,}+"),
    ("aws-bedrock-key", r"ABSK[A-Za-z0-9+/=]{60,}+|bedrock-api-key-[A-Za-z0-9+/=]{30,}+"),
    ("azure-secret", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("buildkite-token", r"bk[uac]a_[a-f0-9]{40}(?![A-Za-z0-9])"),
    ("circleci-token", r"CCIP[AR]T_[A-Za-z0-9]{16,}+_[a-f0-9]{40}"),
    ("clojars-token", r"CLOJARS_[a-z0-9]{60}"),
    ("cloudflare-key", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    ("cockroach-key", r"CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}"),
    ("contentful-token", r"CFPAT-[A-Za-z0-9_-]{43}"),
    ("discord-webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}+"),
    ("docker-token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}+"),
    ("doppler-token", r"dp\.(?:pt|st|ct|scim|audit)\.[A-Za-z0-9._-]{40,}+"),
    ("duffel-token", r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    ("dynatrace-token", r"dt0[a-z]01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    ("easypost-key", r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("facebook-token", r"EAA[A-Za-z0-9]{80,}+"),
    ("figma-token", r"fig[dour]_[A-Za-z0-9_-]{40,}+"),
    ("flutterwave-key", r"FLWSECK(?:_TEST)?-[A-Za-z0-9-]{12,}+"),
    ("fly-token", r"fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/=]{60,}+"),
    ("frameio-token", r"fio-u-[A-Za-z0-9_=-]{64}"),
    (
        "grafana-token",
        r"glc_[A-Za-z0-9+/=]{32,}+|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|eyJrIjoi[A-Za-z0-9+/=]{60,}+",
    ),
    ("harness-key", r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    ("heroku-key", r"HRKU-[A-Za-z0-9_-]{36,}+"),
    ("infracost-token", r"ico-[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("intra42-secret", r"s-s4t2(?:ud|af)-[a-f0-9]{64}"),
    ("langsmith-key", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    ("launchdarkly-key", r"sdk-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"),
    ("mailchimp-key", r"[a-f0-9]{32}-us[0-9]{1,2}(?![A-Za-z0-9])"),
    ("mailgun-key", r"key-[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("mapbox-token", r"sk\.eyJ[A-Za-z0-9_-]{20,}+\.[A-Za-z0-9_-]{20,}+"),
    ("maxmind-key", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    ("mongodb-secret", r"mdb_sa_sk_[A-Za-z0-9_-]{30,}+"),
    ("neon-key", r"napi_[a-z0-9]{60,}+"),
    ("netlify-token", r"nf[pcoub]_[A-Za-z0-9]{36}"),
    ("new-relic-key", r"NR(?:AK|AL|AA|II|IQ|RA|SP)-[A-Za-z0-9_-]{19,}+|NRJS-[a-f0-9]{19}"),
    ("octopus-key", r"API-[A-Z0-9]{26}(?![A-Za-z0-9])"),
    ("openshift-token", r"sha256~[A-Za-z0-9_-]{43}"),
    ("paypal-token", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    ("pinecone-key", r"pcsk_[A-Za-z0-9]{5,8}_[A-Za-z0-9]{50,}+"),
    ("planetscale-token", r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_=.-]{32,}+"),
    ("posthog-key", r"ph[xs]_[A-Za-z0-9]{40,}+"),
    ("postman-key", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    ("prefect-token", r"pn[ub]_[A-Za-z0-9]{36}"),
    ("pulumi-token", r"pul-[a-f0-9]{40}(?![A-Za-z0-9])"),
    ("readme-token", r"rdme_[a-z0-9]{70}"),
    ("resend-key", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}+"),
    ("rubygems-token", r"rubygems_[a-f0-9]{48}"),
    ("scalingo-token", r"tk-us-[A-Za-z0-9_-]{48}"),
    ("sendinblue-key", r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("sentry-token", r"sntry[su]_[A-Za-z0-9+/=_-]{60,}+"),
    ("settlemint-token", r"sm_[aps]at_[A-Za-z0-9]{16}"),
    ("shippo-token", r"shippo_(?:live|test)_[A-Fa-f0-9]{40}"),
    ("sonar-token", r"sq[upa]_[a-f0-9]{40}"),
    ("sourcegraph-token", r"sgp_(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}"),
    ("square-token", r"EAAA[A-Za-z0-9_-]{56,}+|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}+"),
    ("supabase-key", r"sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,}+"),
    ("tailscale-key", r"tskey-[a-z]{3,12}-[A-Za-z0-9]{8,}+-[A-Za-z0-9]{16,}+"),
    ("tavily-key", r"tvly-[A-Za-z0-9_-]{28,}+"),
    ("teams-webhook", r"[a-z0-9]{2,40}\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{80,}+"),
    ("terraform-token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}+"),
    ("typeform-token", r"tfp_[A-Za-z0-9_.=-]{40,}+"),
    ("yandex-key", r"AQVN[A-Za-z0-9_-]{35,38}|YC[A-Za-z0-9_-]{38}(?![A-Za-z0-9_-])"),
    ("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{20,}+"),
    ("openai-key", r"sk-[A-Za-z0-9_-]{20,}+"),
    ("stripe-key", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}+"),
    ("stripe-webhook-secret", r"whsec_[A-Za-z0-9+/=]{24,}+"),
    ("github-token", r"gh[pousr]_[A-Za-z0-9]{36,}+"),
    ("github-token", r"github_pat_[A-Za-z0-9_]{22,}+"),
    (
        "gitlab-token",
        r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|ffct|imt|agent|oas|soat)-[A-Za-z0-9_.-]{20,}+",
    ),
    ("gitlab-token", r"GR1348941[A-Za-z0-9_-]{20}"),
    ("aws-access-key", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("slack-token", r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}+"),
    ("slack-token", r"xapp-[0-9]-[A-Za-z0-9-]{10,}+"),
    ("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/+]{40,}+"),
    ("google-key", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    ("google-secret", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    ("google-token", r"ya29\.[A-Za-z0-9_-]{20,}+"),
    ("sendgrid-key", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,}+"),
    ("huggingface-token", r"(?:hf|api_org)_[A-Za-z0-9]{30,}+"),
    ("npm-token", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("pypi-token", r"pypi-AgE[A-Za-z0-9_-]{50,}+"),
    ("shopify-token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}(?![A-Za-z0-9])"),
    ("digitalocean-token", r"do[opr]_v1_[a-f0-9]{64}(?![A-Za-z0-9])"),
    ("databricks-token", r"dapi[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("vault-token", r"hv[sbr]\.[A-Za-z0-9_-]{24,}+"),
    ("twilio-key", r"SK[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("telegram-token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    ("groq-key", r"gsk_[A-Za-z0-9]{40,}+"),
    ("xai-key", r"xai-[A-Za-z0-9]{60,}+"),
    ("nvidia-key", r"nvapi-[A-Za-z0-9_-]{40,}+"),
    ("perplexity-key", r"pplx-[A-Za-z0-9]{40,}+"),
    ("replicate-token", r"r8_[A-Za-z0-9]{37}(?![A-Za-z0-9])"),
    ("linear-key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}+"),
    ("notion-token", r"(?:ntn_|secret_)[A-Za-z0-9]{43,}+"),
    ("age-secret-key", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("memoranda-key", r"mk_[A-Za-z0-9]{8,}+_[A-Za-z0-9_-]{20,}+"),
    ("ump-capability", r"umpcap\.[A-Za-z0-9_-]{20,}+\.[A-Za-z0-9_:-]{20,}+"),
    ("jwt", r"eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+"),
)
# A credential cannot begin inside a word.
_WORD_START: Final = r"(?<![A-Za-z0-9_-])"
ANY_KEY: Final = re.compile(
    _WORD_START + "(?:" + "|".join(pattern for _, pattern in _VENDORS) + ")", re.ASCII
)


@cache
def _compile_with_groups() -> re.Pattern[str]:
    """Compile the pattern with a group per vendor.

    Matching it takes five times as long as KNOWN, so it only runs on matches of KNOWN.
    """
    groups = "|".join(f"(?P<v{number}>{pattern})" for number, (_, pattern) in enumerate(_VENDORS))
    return re.compile(f"{_WORD_START}(?:{groups})", re.ASCII)


def kind_of(text: str, start: int, end: int) -> str:
    """Return the kind of the credential that KNOWN found at `start`, in a word that ends at `end`."""
    match = _compile_with_groups().match(text, start, end)
    assert match is not None
    return _VENDORS[int(str(match.lastgroup)[1:])][0]
