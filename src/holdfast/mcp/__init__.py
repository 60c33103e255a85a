"""The MCP server: durable state for any coding agent that speaks the Model Context Protocol.

The client acts; the server records. The server that started a run holds it until the run is finished or left,
or the server ends. Inside this package ``import mcp`` is the official SDK, and only ``sdk`` imports it.
"""
