"""The agent that python-nomad's own tests ask. They set the token when they have bootstrapped the ACLs."""

import os

IP = os.environ["NOMAD_IP"]
NOMAD_PORT = 4646
NOMAD_NAMESPACE = "admin"
NOMAD_TOKEN = None
