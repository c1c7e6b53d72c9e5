"""One file per API, each with one function `handle(call)`. A file here is what makes an API served and advertised."""
