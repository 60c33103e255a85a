"""What a person changes in a fork: its state, messages of its conversation, its inputs."""
