"""One file for each page: a function of the backend and the request that returns the parts of the page."""
