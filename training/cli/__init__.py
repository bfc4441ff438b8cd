"""Holds the subcommands of `headlight-train` and their options."""
