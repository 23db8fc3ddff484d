"""The console: pages on which a person sees, searches, corrects and governs a memory.

Pages are made here, on the server, from the same verbs that every binding calls; they can be read without a script.
What moves (searching while one types, what is new) is in `static/console.js`, which asks for the same pages.
"""
