"""Makes what leaves the repository: the site of the pages, and a release."""
