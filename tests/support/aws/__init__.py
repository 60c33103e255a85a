"""DynamoDB over a real socket, for tests: servers in an environment of their own, one each test process."""
