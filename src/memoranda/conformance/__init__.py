"""Routes and workflows for conformance suites, served only if the server is started with `--seams`."""
