"""Exits with 0 if this replica is ready, else with 1: the health check of the container.

It imports little, because it starts every few seconds within the container's limits.
"""

import http.client
import os
import sys

_TIMEOUT_SECONDS = 2.0


def is_ready(port: int) -> bool:
    """Whether the service of this machine answers 200 at `/health/ready`.

    Args:
        port: that it listens on.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_ready(int(os.environ.get("HEADLIGHT_PORT", "8000"))) else 1)
