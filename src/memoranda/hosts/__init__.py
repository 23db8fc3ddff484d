"""Hosts: programs in which agents run. Adds the memory to their configuration, and removes it again.

A configuration file belongs to its owner and its host. So it is edited as text, at one position, and never
regenerated from parsed values: comments, order, unknown keys, indentation and line ends stay. Each edit is checked by
parsing the result, which must equal the former content plus the entry. If a file cannot be edited safely, the edit is
refused, and the user gets the text to paste.

- `table` lists the hosts: the path of the configuration file, and the form of an entry.
- `document` edits configurations, in TOML, YAML or marked text; `json_comments` edits JSON with comments.
- `plan` computes the changes of files, and applies them.
- `sessions` handles the hooks of a host. The importers parse the session files that it wrote.
"""
