"""Defines the interface: routes, the schemas of requests and answers, and what each route does."""
