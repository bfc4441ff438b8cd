"""Exits with 0 if this replica is ready, else with 1: the health check of the container.

It imports little, because it starts every few seconds within the container's limits.
"""

import http.client
import os
import sys

_TIMEOUT_SECONDS = 2.0
# Of the image's commands `headlight-serve` and `serve`.
_PORTS = ("8000", "8080")


def is_ready(port: int) -> bool:
    """Whether the service at a port of this machine answers 200 at `/health/ready`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    ports = (os.environ["HEADLIGHT_PORT"],) if "HEADLIGHT_PORT" in os.environ else _PORTS
    sys.exit(not any(is_ready(int(port)) for port in ports))
