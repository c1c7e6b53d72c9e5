"""The handlers: a file per API, with one function `handle(call)`. An API is served and advertised if it has a file
here.
"""
