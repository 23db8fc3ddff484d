"""Programs in which agents run, and how the memory is added to their configuration and taken out again.

A configuration file belongs to its owner and to its host: it is edited as text, in one place, and never written anew
from what was read out of it. So comments, order, unknown keys, indentation and line ends stay. Each edit is checked by
reading the result: it must say what the file said before, and the entry, and nothing else. What cannot be edited so is
refused, with the text to paste.

`table` says where each host keeps its file and what an entry looks like; `json_comments`, `toml_tables`, `yaml_blocks`
and `marked_text` edit one kind of text each; `plan` finds out what would change, and writes it; `check` starts the
server as a host would. `sessions` answers the hooks of a host, and `transcripts` reads the sessions that it wrote.
"""
