"""UMP: remember, recall, revise and forget records."""
