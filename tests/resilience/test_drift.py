"""The parts of a process's memory."""

from tests.resilience.drift import read_parts

SMAPS = """\
5600-5700 rw-p 00000000 00:00 0                          [heap]
Size:                256 kB
Rss:                1000 kB
7f00-7f10 rwxp 00000000 00:00 0
Rss:                2000 kB
Pss:                9000 kB
7f10-7f20 rw-p 00000000 00:00 0
Rss:                4000 kB
7f20-7f30 r-xp 00000000 fe:00 1234                       /usr/lib/libc.so.6
Rss:                8000 kB
7f30-7f40 r-xp 00000000 00:00 0                          [vdso]
Rss:                  16 kB
7f40-7f50 ---p 00000000 00:00 0
Rss:               32000 kB
"""


def test_each_mapping_counts_as_what_it_is() -> None:
    assert read_parts(SMAPS) == {"code": 2.0, "heap": 1.0, "anonymous": 36.016, "files": 8.0}
