"""Imported by a process that is going to fork: what describes the service is read once, and not by every child."""

from holdfast.stores.dynamodb.address import Target
from holdfast.stores.dynamodb.table.client import client_of

client_of("dynamodb", Target("none", "eu-central-1", "http://127.0.0.1:1")).close()
