"""The MCP server: a state that survives the session, for any coding agent that speaks the Model Context Protocol.

Its client acts; the server records. A run is held by the server that started it, until it is finished or left, or the
server ends. Inside this package ``import mcp`` is the official SDK, and only ``sdk`` does it.
"""
