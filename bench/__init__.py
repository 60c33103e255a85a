"""The numbers, as ratios measured in one run: machines are shared and noisy, ratios travel."""
