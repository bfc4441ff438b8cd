"""Notes what requests do, and sends it to a collector of OpenTelemetry; off unless asked for."""
