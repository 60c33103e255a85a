"""Where other people's clients and frameworks meet Holdfast: each module knows one of them, and is loaded when it is used."""
