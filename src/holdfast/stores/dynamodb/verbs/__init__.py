"""The verbs of the port on DynamoDB, by subject."""
