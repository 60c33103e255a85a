"""Opens, holds, closes and cancels runs; features join a held run here."""
