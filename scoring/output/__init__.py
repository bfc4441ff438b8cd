"""Describes a job, and writes its parts, records and totals."""
