"""The DynamoDB table: keys, items, requests."""
