"""Runs plans: several stages, pools of texts, and a teacher."""
