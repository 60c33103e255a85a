"""The port's methods on DynamoDB, by subject."""
