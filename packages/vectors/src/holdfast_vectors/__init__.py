"""The table of word vectors of Holdfast's memory: ``table.bin`` beside this file, and nothing else."""
