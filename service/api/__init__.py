"""Says what a request means: routes, schemas, and what each route does."""
