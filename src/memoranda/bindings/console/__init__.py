"""The console: pages on which a person sees, searches, corrects and governs a memory.

The server renders the pages from the same verbs that every interface calls, so they work without a script. The script
`static/console.js` searches while a person types and shows new memories; it requests the same pages.
"""
