"""Learning from conversations: statements in the words of the person, and statements that a model proposes."""
