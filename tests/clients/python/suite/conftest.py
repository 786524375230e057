"""Fixtures of python-nomad's own tests."""

import time

import nomad
import pytest

import tests.common as common

# Seconds.
WITHIN = 60


def client(**options):
    """A client of the agent."""
    return nomad.Nomad(host=common.IP, port=common.NOMAD_PORT, verify=False, token=common.NOMAD_TOKEN, **options)


@pytest.fixture
def nomad_setup():
    """A client."""
    return client()


@pytest.fixture
def nomad_setup_with_namespace():
    """A client that asks for one namespace."""
    return client(namespace=common.NOMAD_NAMESPACE)


@pytest.fixture(autouse=True)
def placed(request):
    """Waits for the allocation of a job that a test has registered: the next test expects it at once."""
    yield
    if request.node.name == "test_register_job":
        end = time.monotonic() + WITHIN
        while not client().job.get_allocations("example") and time.monotonic() < end:
            time.sleep(0.05)
