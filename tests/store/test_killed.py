"""A recorder that is killed at any moment: the database opens, what was there is there, a half recording is not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = """
import json, os, random, signal, sqlite3, sys, time
sys.path.insert(0, {here!r})
from synthetic import recording, transformer
from presk_db.store.check import check_database
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording

database, times, fresh = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "fresh"
given = recording(transformer(layers=40))
draw = random.Random(7)

def write():
    write_recording(open_database(database, create=True), given)

def count():
    connection = sqlite3.connect(database)
    try:
        return connection.execute("select count(*) from recordings").fetchone()[0]
    finally:
        connection.close()

def clear():
    for name in (database, database + "-journal"):
        if os.path.exists(name):
            os.unlink(name)

write()
start = time.monotonic()
clear() if fresh else None
write()
whole = time.monotonic() - start
killed, inside, hot = 0, 0, 0
for number in range(times):
    clear() if fresh else None
    before = 0 if fresh else count()
    child = os.fork()
    if child == 0:
        write()
        os._exit(0)
    time.sleep(draw.uniform(0, 1.2 * whole))
    os.kill(child, signal.SIGKILL)
    killed += os.waitpid(child, 0)[1] != 0
    hot += os.path.exists(database + "-journal")
    open_database(database, create=True)
    after = count()
    assert after in (before, before + 1), (before, after)
    inside += after == before
    if number % 5 == 0:
        assert check_database(database) == []
write()
assert check_database(database) == []
assert not os.path.exists(database + "-journal")
print(json.dumps([killed, inside, hot]))
"""


@pytest.mark.parametrize(("kind", "times"), [("again", 30), ("fresh", 20)])
def test_a_recorder_that_is_killed(kind: str, times: int, tmp_path: Path) -> None:
    """Fifty times: while a recording is added to others, and while the database is made for a first one."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT.format(here=str(HERE)), str(tmp_path / "presk.db")]
    done = subprocess.run([*command, str(times), kind], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    killed, inside, hot = json.loads(done.stdout)
    assert killed > times // 3, "most die before they are done"
    assert inside > times // 4, "and leave no recording"
    assert hot > 0, "some in the middle of a transaction"
