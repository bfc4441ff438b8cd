"""Holds the peers: other servers, some written plainly and some as an expert would."""

import sys

# OpenVINO and NNCF would send figures of their use.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
