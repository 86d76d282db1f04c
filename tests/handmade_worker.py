"""Small stand-ins for the interpreter of a measuring worker: scripts that answer as it does."""

from __future__ import annotations

import sys

HEAD = f"""#!{sys.executable} -SE
import json, os, signal, sys, threading
requests = os.fdopen(int(sys.argv[-2]), "rb")
request = json.loads(requests.readline())["measure"]
reply = int(sys.argv[-1])
def send(**message):
    os.write(reply, json.dumps(message).encode() + b"\\n")
def sleep():
    threading.Event().wait(60)
machine = {{"device": "a stand-in", "torch": "2.13.0", "variables": dict(os.environ)}}
def ready(step_seconds=0.001):
    send(type="prepared", prepared={{
        "side": request["side"], "process": 0, "machine": machine,
        "step_seconds": step_seconds, "compile_seconds": 2.5,
    }})
def asked():
    line = requests.readline()
    return json.loads(line) if line else None
"""
WORKS = """
for phase in ("import", "trace", "kernels", "check", "warm"):
    send(type="progress", phase=phase)
ready()
while ask := asked():
    send(type="turn", turn={"seconds": [0.25] * ask["steps"], "wall": [0.5] * ask["warmup"]})
"""
