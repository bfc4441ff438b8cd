"""The HTTP service: from requests to predictions and attention, by the loaded model."""
