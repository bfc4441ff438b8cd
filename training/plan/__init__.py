"""Runs a plan: stages, pools of texts, and a teacher."""
