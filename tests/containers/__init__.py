"""The image and the compose file, built and run by a real engine: `make containers`.

`make test` leaves this folder out, since building the image takes minutes.
"""
