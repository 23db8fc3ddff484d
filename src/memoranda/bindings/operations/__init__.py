"""The table of operations: one row for each verb, from which servers, clients and documents are made."""
