"""What only conformance suites ask for. Served when the server is started with --seams; nothing else imports it."""
