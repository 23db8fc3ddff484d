"""Cues of explicit statements in five languages: expressions with which people say that something holds for longer.

Each cue is anchored at the beginning of a sentence, after words of politeness, because the same words within a sentence
mostly tell a story or describe a program. A named group `rest` is the statement; without one it is the whole sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

CueName = Literal[
    "remember", "from_now_on", "rule", "attribute", "person", "decision", "correction"
]


class Cue(NamedTuple):
    """An expression that marks a statement."""

    name: CueName
    pattern: re.Pattern[str]


# Values that name something: with a capital letter, a digit, or a sign of an address or a path.
_NAMED: Final = r"(?=\S*(?-i:[A-Z0-9@/_])|(?:\S+\s){0,3}\S*(?-i:[A-Z0-9@/_]))"

# English verbs in the imperative with which rules begin.
_VERBS: Final = (
    "use|run|add|write|ask|commit|push|deploy|format|name|put|keep|prefer|call|check|test|answer|reply|respond|include"
    "|return|create|make|import|install|delete|remove|merge|open|close|squash|rebase|log|print|mock|skip|touch|edit"
    "|change|modify|generate|follow|show|tell|explain|start|stop|wrap|catch|raise|throw|validate|escape|sign|ship"
    "|release|update|bump|pin|send|store|save|read|load|reference|link|document|comment|translate|speak|type|quote"
    "|indent|sort|review|confirm|verify|build|lint|prefix|suffix|round|give|do|be|assume|leave|set|pass|apply"
    "|hardcode|hard-code|suggest|propose|expose|share|force-push|spell|avoid|split|group|cite|begin|end|mention|list"
    "|summarize|summarise|handle|treat|ignore|require|let|try|work|refer|address|address|stick|switch|track|rely|omit"
)
_IMPERATIVE: Final = rf"(?:please )?(?:(?:do not|don't|never|always|only) )?(?:{_VERBS})\b"
_ATTRIBUTES: Final = (
    "name|surname|e-?mail|e-?mail address|address|time ?zone|birthday|role|job|job title|manager|boss|team|company"
    "|employer|pronouns?|username|user name|handle|account|github|editor|shell|city|country|language|phone number"
    "|number|wife|husband|partner|son|daughter|laptop|machine|operating system|os|colou?r|drink|food|database|framework"
    "|stack|tool|font|theme|style|locale|currency|dog|cat|nickname|alias|title|department|project|client"
)
_OUR: Final = (
    "support e-?mail|e-?mail|wiki|repo|repository|domain|coding style|code style|style guide|port|registry|branch"
    "|default branch|main branch|company|team|product|standard|customer|client|office|time ?zone|cluster|namespace"
)
_ROLES: Final = (
    "engineer|developer|designer|programmer|teacher|student|researcher|scientist|analyst|manager|lead|architect|lawyer"
    "|doctor|nurse|writer|journalist|consultant|founder|administrator|freelancer|tester|physicist|biologist|economist"
)
_FROM_NOW_EN: Final = r"from now on|from here on|from today on|going forward|in (?:the )?future|starting (?:now|today)|as of (?:now|today)"

_ENGLISH: Final = (
    ("remember", r"(?:i want you to |it'?s important to )?remember that (?P<rest>\S.+)"),
    ("remember", rf"remember(?::|, (?=(?:the|our|my) [\w' -]{{1,40}} (?:is|are) {_NAMED}))\s*(?P<rest>\S.+)"),
    ("remember", r"(?:keep|bear) in mind(?: that|:|,) (?P<rest>\S.+)"),
    ("remember", r"(?:do not|don't) forget that (?P<rest>\S.+)"),
    ("remember", r"(?:make a note|take note) that (?P<rest>\S.+)"),
    ("remember", r"(?:note for later|note to self[^:]{0,20}|for future reference|for the record)[:,] (?P<rest>\S.+)"),
    ("remember", r"(?:fyi|note) for (?:all |every |any )?(?:future|later)[^:]{0,20}: (?P<rest>\S.+)"),
    ("remember", r"(?P<rest>\S.+?), (?:please )?(?:remember|don't forget|keep in mind) that[.!]?$"),
    ("from_now_on", rf"(?:{_FROM_NOW_EN})[,:] (?!the |this |that |it |there |they |he |she |you are |you're |my |i'm |i am |i will |i'll |i might |maybe |use of )\S.+"),
    ("from_now_on", rf"(?:{_FROM_NOW_EN}) (?:{_IMPERATIVE}|we |i want |i'd like )\S*.+"),
    ("from_now_on", rf"{_IMPERATIVE} .+ (?:{_FROM_NOW_EN})[.!]?$"),
    ("rule", rf"(?:you should |you must |we should )?(?:always|never|don't ever|do not ever) (?:ever )?(?:{_VERBS})\b .+"),
    ("rule", rf"(?:i always want (?!to )|i'd like you to (?:always|never) (?:{_VERBS})\b|i want you to (?:always|never) )\S*.+"),
    ("rule", rf"whenever you \w+ [^,]+, {_IMPERATIVE} .+"),
    ("rule", rf"(?:before|after) (?:every|each) [^,]+, {_IMPERATIVE} .+"),
    ("rule", r"(?:don't|do not|stop) (?!worry|bother|care|mind|get me)\w+ (?!it\b|this\b|that\b|about it\b).*\b(?:any ?more|any longer)[.!]?$"),
    ("rule", r"stop \w+ing .+ in (?:your|the) (?:answers|replies|responses|messages|commits|commit messages|comments)[.!]?$"),
    ("rule", r"let's agree on one thing: .+"),
    ("attribute", rf"my (?:preferred|favou?rite) (?:{_ATTRIBUTES}) is .+"),
    ("attribute", r"my pronouns are .+"),
    ("attribute", r"my (?:role|job|job title|native language|mother tongue) is (?!not|to ).+"),
    (
        "attribute",
        (
            rf"my (?:(?:github|work|home|full|first|last|private|dog's|cat's|wife's|husband's|son's|daughter's) )?"
            rf"(?:{_ATTRIBUTES}) (?:is|are) (?:called |named )?{_NAMED}.+"
        ),
    ),
    ("attribute", rf"our (?:default )?(?:{_OUR}) is (?:called |named )?{_NAMED}.+"),
    ("person", r"i live in (?-i:[A-Z]).+"),
    ("person", r"i work (?:at|for) (?-i:[A-Z]).+"),
    ("person", r"i(?:'m| am) allergic to .+"),
    ("person", r"i speak (?-i:[A-Z]).+"),
    ("person", rf"i(?:'m| am) an? (?:\w+ ){{0,2}}(?:{_ROLES})(?:[.!]?$| (?:at|in|on|for|from|by|and)\b.*)"),
    (
        "person",
        (
            r"i prefer (?!(?:this|that|it|these|those|the (?:first|second|third|other|former|latter|next|old|new|last)|option"
            r"|version|not to|if|to (?:see|wait|do it|keep it))\b).+"
        ),
    ),
    ("person", r"call me (?-i:[A-Z])\w+\b.*"),
    ("decision", r"(?:we|i)(?:'ve| have)?(?: just| now| finally)? (?:decided|agreed) (?:to|on|that|against) (?!disagree).+"),
    ("decision", r"we(?:'ve| have)? (?:settled on|chosen|chose|standardi[sz]ed on) (?!this |that |it\b|option ).+"),
    ("decision", r"(?:we're|we are) going with (?!this\b|that\b|it\b|option |the (?:first|second|other)).+"),
    ("decision", r"let's go with (?!this\b|that\b|it\b|an? |option |the (?:first|second|other|former|latter)).+"),
    ("decision", rf"we(?:'ll| will) use {_NAMED}.+"),
    ("decision", r"(?:the )?decision(?: is to|:) .+"),
    ("decision", r"we use (?!it\b|this\b|that\b|these\b|those\b|them\b|the ).+(?:, (?:not|no|never) | instead of | rather than ).+"),
    (
        "correction",
        r"no, (?:please )?use (?!this\b|that\b|it\b|the\b|one\b|what\b|your\b).+",
    ),
    ("correction", rf"(?:no|actually|wrong|that's wrong), (?:the|our|my) [\w' -]{{1,40}} (?:is|are)(?: called| named)? (?:in )?{_NAMED}(?!in the ).+"),
    ("correction", r"(?:no|actually|wrong|that's wrong),? we \w+ .+(?:, not | instead of | rather than ).+"),
    ("correction", r"correction: .+"),
)  # fmt: skip

_FROM_NOW_DE: Final = r"ab jetzt|ab sofort|von nun an|in zukunft|künftig|zukünftig|ab heute"
_NOT_A_RULE_DE: Final = r"(?!könnte|kann|können|wird|werden|würde|soll|ist|sind|bist|war|hat|haben|der |die |das |es |er |sie )"
_GERMAN: Final = (
    ("remember", r"merke? (?:dir|euch)?(?: bitte)?(?:, dass|:) (?P<rest>\S.+)"),
    ("remember", r"(?:denk(?:e)?|denkt) (?:bitte )?daran, dass (?P<rest>\S.+)"),
    ("remember", r"(?:vergiss|vergesst) nicht, dass (?P<rest>\S.+)"),
    ("remember", r"(?:beachte|bedenke|behalte im (?:kopf|hinterkopf))(?: bitte| künftig)*, dass (?P<rest>\S.+)"),
    ("remember", r"(?P<rest>\S.+?), (?:bitte )?merk(?:e)? dir das[.!]?$"),
    ("from_now_on", rf"(?:{_FROM_NOW_DE}),? {_NOT_A_RULE_DE}\S.+"),
    ("from_now_on", rf"(?:bitte )?[^\W\d_]+e? (?:bitte )?(?:{_FROM_NOW_DE}) .+"),
    (
        "rule",
        (
            r"(?:bitte )?(?!(?:ich|es|wir|sie|er|das|die|leute|alle|beide|manche|diese|viele|nutzer|ihr|du)\b)"
            r"(?:[^\W\d_]{2,}e|nimm|lass|gib|lies|schreib|mach|sag|frag|führ|lösch|benutz|verwend|nutz) (?:bitte )?"
            r"(?:immer|nie|niemals|stets) .+"
        ),
    ),
    ("rule", r"(?:immer|nie|niemals|stets) (?!noch\b|wieder\b|der\b|die\b|das\b|mehr\b).+ [^\W\d_]{2,}(?:en|ern|eln)(?:, bitte)?[.!]?$"),
    ("attribute", rf"(?:mein|meine|mein vollständiger) (?:name|e-?mail(?:-adresse)?|adresse|zeitzone|chefin?|managerin?|firma|team|benutzername|muttersprache|editor|rolle|beruf|frau|mann|tochter|sohn|stadt) (?:ist|lautet|heißt) {_NAMED}.+"),
    ("attribute", r"mein geburtstag ist .+"),
    ("attribute", r"meine? lieblings(?:farbe|essen|getränk|editor|sprache|schrift|tool|werkzeug|framework)\w* (?:ist|sind) .+"),
    ("attribute", rf"unser(?:e)? [\w-]{{2,30}} heißt {_NAMED}.+"),
    ("person", r"ich heiße (?-i:[A-ZÄÖÜ]).+"),
    ("person", r"ich (?:wohne|lebe) in (?-i:[A-ZÄÖÜ]).+"),
    ("person", r"ich arbeite (?:bei|für) (?-i:[A-ZÄÖÜ]).+"),
    ("person", r"ich bin allergisch gegen .+"),
    ("person", r"ich spreche (?-i:[A-ZÄÖÜ]).+"),
    ("person", r"ich bevorzuge (?!hier\b|diese|dies\b|das\b|die (?:erste|zweite|andere)|den (?:ersten|zweiten|anderen)).+"),
    ("person", r"nenn(?:e)? mich (?:bitte )?(?-i:[A-ZÄÖÜ]).+"),
    ("decision", r"wir haben (?:uns )?(?!noch|nicht|nie|das\b|es\b).*\b(?:entschieden|beschlossen|geeinigt)\b.*"),
    ("decision", r"entscheidung: .+"),
    ("decision", r"wir (?:verwenden|nutzen|benutzen) (?!das\b|es\b|dies|hier\b).+(?:, nicht | statt | anstelle von ).+"),
    ("correction", r"nein, (?:bitte )?(?:nimm|verwende|nutze|benutze) (?!das\b|die (?:andere|erste|zweite)|den (?:anderen|ersten|zweiten)|dies).+"),
    ("correction", r"(?:nein|falsch|eigentlich), (?:der|die|das|unser|unsere|mein|meine) [\w-]{2,30} (?:ist|heißt) (?!in )(?-i:[A-ZÄÖÜ0-9])(?!\w*e[rn]? (?:anderen|ersten)).*"),
    ("correction", r"(?:nein,|falsch,|eigentlich) (?:wir (?:verwenden|nutzen|benutzen)|(?:verwenden|nutzen|benutzen) wir) .+(?:, nicht | statt ).+"),
    ("correction", r"korrektur: .+"),
)  # fmt: skip

_FROM_NOW_FR: Final = (
    r"à partir de maintenant|désormais|dorénavant|à l'avenir|à partir d'aujourd'hui"
)
_FRENCH: Final = (
    ("remember", r"(?:retiens|retenez|souviens-toi|souvenez-vous|rappelle-toi|rappelez-vous|note|notez)(?: bien)? qu(?:e |')(?P<rest>\S.+)"),
    ("remember", r"n'oublie[zs]? pas qu(?:e |')(?P<rest>\S.+)"),
    ("remember", r"garde[zs]? à l'esprit qu(?:e |')(?P<rest>\S.+)"),
    ("from_now_on", rf"(?:{_FROM_NOW_FR}),? (?!tu es|vous êtes|c'est|ce |cela|ça|il |elle |le |la |les |l')\S.+"),
    ("from_now_on", rf"(?!(?:il|elle|je|ça|on|nous)\b)[^\W\d_]+(?:e|ez|s) .+ (?:{_FROM_NOW_FR})[.!]?$"),
    ("rule", r"n(?:e |')[^\W\d_]+ (?:pas )?jamais .+"),
    ("rule", r"(?!(?:il|elle|je|tu|on|nous|ça|ce|cela|elles|ils|le|la|les)\b)[^\W\d_]{2,}(?:e|ez|s) toujours (?!que\b|pas\b).+"),
    ("attribute", rf"(?:mon|ma) (?:nom|prénom|e-?mail|adresse(?: e-?mail)?|fuseau horaire|responsable|chef|cheffe|manager|entreprise|équipe|éditeur|langue maternelle|poste|pseudo|femme|mari|fille|fils|ville) est {_NAMED}.+"),
    ("attribute", r"mon anniversaire est .+"),
    ("attribute", r"ma (?:couleur|boisson|langue|police) préférée est .+"),
    ("attribute", r"mon (?:plat|éditeur|outil|langage) préféré est .+"),
    ("person", r"je m'appelle (?-i:[A-ZÉÈ]).+"),
    ("person", r"j'habite (?:à |en |au )?(?-i:[A-ZÉÈ]).+"),
    ("person", r"je travaille (?:chez|pour) (?-i:[A-ZÉÈ]).+"),
    ("person", r"je suis allergique .+"),
    ("person", r"je parle (?:allemand|français|anglais|espagnol|portugais|italien|chinois|japonais|arabe|russe|néerlandais)\b.*"),
    ("person", r"je préfère (?!cet|ce |cela|ça|la (?:première|deuxième|seconde)|le (?:premier|deuxième|second)|l'autre|celui|celle|ici).+"),
    ("person", r"appelle[zs]?-moi (?-i:[A-ZÉÈ]).+"),
    ("decision", r"(?:nous avons|on a) (?:finalement )?(?:décidé|convenu|choisi) (?:de |d'|que |qu').+"),
    ("decision", r"(?:nous nous sommes|on s'est) mis d'accord (?:sur|pour) .+"),
    ("decision", r"décision ?: .+"),
    ("decision", r"on part sur (?-i:[A-Z]).+"),
    ("decision", r"(?:nous utilisons|on utilise) (?!ça\b|cela\b|le |la |les ).+, pas .+"),
    ("correction", r"non, utilise[zs]? (?!l'autre|le (?:premier|deuxième|second|autre)|la (?:première|deuxième|seconde)|celui|celle|ça\b|cela\b).+"),
    ("correction", r"non, (?:le|la|notre|mon|ma) [\w' -]{2,30} est (?!dans )(?-i:[A-Z0-9]).*"),
    ("correction", r"(?:non|en fait), (?:nous utilisons|on utilise) .+, pas .+"),
    ("correction", r"correction ?: .+"),
)  # fmt: skip

_FROM_NOW_ES: Final = (
    r"a partir de ahora|de ahora en adelante|en adelante|en el futuro|desde ahora|a partir de hoy"
)
_SPANISH: Final = (
    ("remember", r"(?:recuerda|recuerde|recordad|acuérdate de|acuérdese de|ten en cuenta|tenga en cuenta|anota|apunta) que (?P<rest>\S.+)"),
    ("remember", r"no (?:te )?olvid(?:es|e)(?: de)? que (?P<rest>\S.+)"),
    ("from_now_on", rf"(?:{_FROM_NOW_ES}),? (?!eres|es |esto|eso|él |ella |el |la |los |las |podría|será)\S.+"),
    ("rule", r"nunca (?:jamás )?[^\W\d_]+(?:as|es)\b .+"),
    ("rule", r"(?!(?:esta|esto|ella|se|la|este|todo|ese|esa)\b)[^\W\d_]{2,}(?:a|e) siempre (?!que\b|igual\b).+"),
    ("attribute", rf"mi (?:nombre|correo|email|e-mail|dirección|zona horaria|jefe|jefa|empresa|equipo|usuario|editor|lengua materna|puesto|mujer|marido|hija|hijo|ciudad) es {_NAMED}.+"),
    ("attribute", r"mi cumpleaños es .+"),
    ("attribute", r"mi (?:color|bebida|comida|editor|lenguaje|herramienta|fuente) (?:favorit[oa]|preferid[oa]) es .+"),
    ("person", r"me llamo (?-i:[A-ZÁÉÍÓÚ]).+"),
    ("person", r"vivo en (?-i:[A-ZÁÉÍÓÚ]).+"),
    ("person", r"trabajo (?:en|para) (?-i:[A-ZÁÉÍÓÚ]).+"),
    ("person", r"soy alérgic[oa] .+"),
    ("person", r"hablo (?:alemán|francés|inglés|español|portugués|italiano|chino|japonés|ruso|árabe)\b.*"),
    ("person", r"prefiero (?!est[aeo]\b|es[aeo]\b|la (?:primera|segunda|otra)|el (?:primero|segundo|otro)|aquí|que no).+"),
    ("person", r"llámame (?-i:[A-ZÁÉÍÓÚ]).+"),
    ("decision", r"(?:hemos decidido|decidimos|hemos acordado|acordamos|quedamos en|elegimos) (?!nada|esto|eso|algo|isto|isso).+"),
    ("decision", r"decisión: .+"),
    ("decision", r"usamos (?!esto|eso|lo |la |el |aquí).+, no .+"),
    ("correction", r"no, usa (?!el (?:otro|primero|segundo)|la (?:otra|primera|segunda)|est[aeo]\b|es[aeo]\b).+"),
    ("correction", r"no, (?:el|la|nuestro|nuestra|mi) [\w -]{2,30} es (?!en )(?-i:[A-Z0-9]).*"),
    ("correction", r"(?:no,|en realidad,?) usamos .+, no .+"),
    ("correction", r"corrección: .+"),
)  # fmt: skip

_FROM_NOW_PT: Final = (
    r"a partir de agora|de agora em diante|daqui em diante|daqui para a frente|no futuro|doravante"
)
_PORTUGUESE: Final = (
    ("remember", r"(?:lembra-te|lembre-se|lembra|lembre)(?: de)? que (?P<rest>\S.+)"),
    ("remember", r"não (?:te |se )?esque[çc]as?(?: de)? que (?P<rest>\S.+)"),
    ("remember", r"(?:tem|tenha) em (?:conta|mente) que (?P<rest>\S.+)"),
    ("from_now_on", rf"(?:{_FROM_NOW_PT}),? (?!és|é |isto|isso|ele |ela |o |a |os |as |poderia|será)\S.+"),
    ("rule", r"nunca (?:mais )?[^\W\d_]+(?:as|es)\b .+"),
    ("rule", r"(?!(?:esta|isto|ela|se|este|tudo|esse|essa|bloqueia)\b)[^\W\d_]{2,}(?:a|e) sempre (?!que\b|igual\b|o mesmo\b|a mesma\b).+"),
    ("attribute", rf"(?:o meu|a minha|meu|minha) (?:nome|e-?mail|endereço|morada|fuso horário|chefe|empresa|equipa|equipe|utilizador|usuário|editor|língua materna|cargo|mulher|marido|filha|filho|cidade) é (?:a |o )?{_NAMED}.+"),
    ("attribute", r"(?:o )?meu aniversário é .+"),
    ("attribute", r"(?:o meu|a minha|meu|minha) (?:cor|bebida|comida|editor|linguagem|ferramenta|fonte) (?:favorit[oa]|preferid[oa]) é .+"),
    ("person", r"(?:chamo-me|me chamo) (?-i:[A-ZÁÉÍÓÚ]).+"),
    ("person", r"(?:moro|vivo) (?:no|na|em) (?-i:[A-ZÁÉÍÓÚ]).+"),
    ("person", r"trabalho (?:na|no|para a|para o|em) (?-i:[A-ZÁÉÍÓÚ]).+"),
    ("person", r"sou alérgic[oa] .+"),
    ("person", r"falo (?:alemão|francês|inglês|espanhol|português|italiano|chinês|japonês|russo|árabe)\b.*"),
    ("person", r"prefiro (?!est[ae]\b|isto\b|isso\b|ess[ae]\b|a (?:primeira|segunda|outra)|o (?:primeiro|segundo|outro)|aqui|que não).+"),
    ("person", r"(?:chama-me|me chame de) (?-i:[A-ZÁÉÍÓÚ]).+"),
    ("decision", r"(?:decidimos|combinámos|combinamos|acordámos|acordamos|escolhemos) (?!nada|isto|isso|alguma|esto|eso).+"),
    ("decision", r"decisão: .+"),
    ("decision", r"usamos (?!isto|isso|o |a |aqui).+, não .+"),
    ("correction", r"não, (?:usa|use) (?!o (?:outro|primeiro|segundo)|a (?:outra|primeira|segunda)|est[ae]\b|ess[ae]\b).+"),
    ("correction", r"não, (?:o|a|o nosso|a nossa|o meu|a minha) [\w -]{2,30} é (?!em )(?-i:[A-Z0-9]).*"),
    ("correction", r"(?:não,|na verdade,?) usamos .+, não .+"),
    ("correction", r"correção: .+"),
)  # fmt: skip


def _compile() -> Iterator[Cue]:
    names: dict[str, CueName] = {
        name: name
        for name in (
            "remember",
            "from_now_on",
            "rule",
            "attribute",
            "person",
            "decision",
            "correction",
        )
    }
    for name, pattern in (*_ENGLISH, *_GERMAN, *_FRENCH, *_SPANISH, *_PORTUGUESE):
        yield Cue(names[name], re.compile(pattern, re.IGNORECASE))


CUES: Final = tuple(_compile())

# Words before a cue that do not change it.
LEAD: Final = re.compile(
    r"(?:(?:ok(?:ay)?|yes|also|and|please|by the way|btw|so|hey|hi|hello|well|thanks|thank you|great|one more thing|oh"
    r"|bitte|übrigens|und|also|danke|gut|hallo|s'il te plaît|s'il vous plaît|et|merci|bonjour|au fait|por favor|y|gracias"
    r"|hola|por cierto|e|obrigad[oa]|olá|a propósito)[,:!]?\s+)+",
    re.IGNORECASE,
)
# Sentences about the task at hand, in spite of a cue.
PASSING: Final = re.compile(
    r"\b(?:for now|this time|just (?:this )?once|this one|(?:in|for|to|with|of) (?:this|these)|this (?:file|test|function|branch"
    r"|task|session|pr|dialog|fixture|script|module|class|case|page|line)|here|below|above|haha|lol|the results of"
    r"|hier|diesmal|dieser? (?:datei|test|funktion|aufgabe)|vorerst|ici|cette fois|ce fichier|pour l'instant|aquí"
    r"|esta vez|este archivo|por ahora|aqui|desta vez|este ficheiro|por agora)\b",
    re.IGNORECASE,
)
# A role for the agent, and orders about its instructions: common in attempts to plant something.
PLANTING: Final = re.compile(
    r"\b(?:you are|you're|act as|pretend|ignore (?:all|any|the|previous|every|safety)|disregard|system prompt|jailbreak"
    r"|password is|du bist|bist du|ignoriere|tu es|vous êtes|ignorez?|eres|ignora|és um|és uma|você é"
    r"|safety rules|without asking (?:me|the user|anyone))\b",
    re.IGNORECASE,
)
