"""Counts which public methods of the package's endpoint classes were called, by wrapping each of them."""

import functools
import importlib
import inspect
import pkgutil

import nomad
import nomad.api
from nomad.api.base import Requester

# Methods that no story calls, each with its reason.
NOT_CALLED = {
    "client.stream_file.stream": "the stream of a file has no end, and this client waits for one",
}

# How many methods may be answered `not served`. It only shrinks.
UNSERVED_MAX = 0

called = set()
unserved = {}
NOT_ENDPOINTS = {"__init__", "__str__", "__repr__", "__getattr__"}


def _wrap(cls, name, function):
    @functools.wraps(function)
    def wrapper(*args, **options):
        called.add(f"{cls.__module__.rsplit('.', 1)[-1]}.{cls.__name__}.{name}")
        return function(*args, **options)

    setattr(cls, name, wrapper)


def watch():
    """Wraps every method, and returns their names."""
    names = set()
    for module in pkgutil.iter_modules(nomad.api.__path__):
        module = importlib.import_module(f"nomad.api.{module.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if not issubclass(cls, Requester) or cls is Requester or cls.__module__ != module.__name__:
                continue
            for name, function in list(vars(cls).items()):
                is_public = not name.startswith("_") or name.startswith("__")
                if inspect.isfunction(function) and is_public and name not in NOT_ENDPOINTS:
                    names.add(f"{module.__name__.rsplit('.', 1)[-1]}.{cls.__name__}.{name}")
                    _wrap(cls, name, function)
    return names


def served(names, call):
    """What `call` answers; `None` when the agent has no such route, which counts for `names`."""
    try:
        return call()
    except nomad.api.exceptions.BaseNomadException as error:
        response = error.nomad_resp
        status, text = response.status_code, response.text.strip()
        open_version = "Nomad Enterprise" in text
        if (status == 501 and not open_version) or (status == 404 and text in ("", "resource not found")) or status == 405:
            unserved.update({name: f"{status} {text}" for name in names})
            return None
        raise


def report(names):
    """Prints what was exercised. Whether nothing was forgotten."""
    forgotten = sorted(names - called - set(NOT_CALLED) - set(unserved))
    stale = sorted(set(NOT_CALLED) & called)
    for name in sorted(unserved):
        print(f"not served: {name}: {unserved[name]}")
    for name in sorted(NOT_CALLED):
        print(f"not called: {name}: {NOT_CALLED[name]}")
    for name in forgotten:
        print(f"forgotten: {name}")
    for name in stale:
        print(f"was called and needs no excuse: {name}")
    exercised = len((called & names) - set(unserved))
    print(
        f"== clients/python, python-nomad {version()}: {exercised} of {len(names)} methods exercised, "
        f"{len(unserved)} not served, {len(NOT_CALLED)} not called for a reason"
    )
    if len(unserved) > UNSERVED_MAX:
        print(f"{len(unserved)} methods are not served, at most {UNSERVED_MAX} may be")
    return not forgotten and not stale and len(unserved) <= UNSERVED_MAX


def version():
    """Of the package."""
    from importlib.metadata import version as of

    return of("python-nomad")
