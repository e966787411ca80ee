"""Real servers for the tests: each is started by the first test that needs it."""
