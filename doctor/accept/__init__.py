"""Acceptance: a profile says what a machine must be and do before it goes to work, and a certificate says what it was and did."""
