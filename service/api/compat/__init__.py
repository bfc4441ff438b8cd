"""Answers clients of other systems in their own forms, as `POST /predict` answers its own."""
