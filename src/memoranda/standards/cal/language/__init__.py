"""A query from text to values.

words        keywords and other fixed words; none that destroys
times        time expressions such as "last 7 days"
lexer        text to tokens
syntax       what a query is: the statements as values
rules        which value may stand where
suggest      what to write instead
cursor       reading tokens and literals, and errors with their place
draft        a RECALL while it is read
conditions, options, stages, recall                     the parser of RECALL
template, template_parser, assemble, evolve, parser     the parser of everything else: `parser.parse`
binding      parameters: `bind`
desugar      shortcuts written out
canonical    the one spelling of a query, and its hash: `canonical`, `query_hash`
check        verdicts without running, warnings, weight
"""
