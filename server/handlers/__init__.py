"""The handlers of the APIs: a file with a function `handle(services, call)` for each, or a row of `forwarded.py`. An API is
served and advertised if it has one of both.
"""
