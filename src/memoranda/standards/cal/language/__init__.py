"""The language of CAL: a query as text, parsed into immutable values.

words        keywords and other fixed words; none of them removes data
times        time expressions such as "last 7 days"
lexer        text to tokens
syntax       the statements as values (the AST)
rules        which value may be compared with, or assigned to, which field
suggest      suggestions for misspelt or outdated words
cursor       base of the parser: reads tokens and literals, builds errors with their position
draft        a RECALL while it is being parsed
conditions, options, stages, recall                     the parser of RECALL
template, template_parser, assemble, evolve, parser     the parser of all other statements: `parser.parse`
binding      replaces parameters by values: `bind`
desugar      rewrites shortcuts (MY, ABOUT, RECENT …) as conditions and stages
canonical    the canonical text of a query and its hash: `canonical`, `query_hash`
check        warnings and complexity, found without running the query
completion   words that may come next, for an interactive prompt

The data flow: text → `lexer.split_tokens` → `parser.parse` → `syntax.Query` → `binding.bind` → `desugar`.
"""
