"""What the tests with real clients share: namespaces, installation, checks. See README.md beside this file.

Outside the namespaces a test installs its client and lays out a directory for the run; inside them it is
the child of their init, and everything that is left dies with them.
"""

import argparse
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTALL_LIMIT = 180  # seconds for npm and pip
SOON = 40  # seconds for what should happen at once
NAMESPACES = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]

# What a job of the tests does: says its pid, waits until its FIFO is written to, speaks, ends.
JOB = """#!/bin/sh
echo $$ > "$1.pid"
read -r go < "$1.fifo"
echo "late $1"
exit 37
"""


class Broken(Exception):
    """The test cannot go on."""


class Skip(Exception):
    """The test cannot be run here."""


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def that(self, good, what, detail=""):
        if good:
            self.passed += 1
            print(f"ok {what}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED {what}" + (f": {detail}" if detail != "" else ""), flush=True)
        return good

    def same(self, found, wanted, what):
        return self.that(found == wanted, what, f"{found!r}, not {wanted!r}")


def until(condition, limit=SOON):
    """The first true value of the condition, or its last one when the time is over."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)


def environment(run):
    """Nothing of the caller's: what is set here and by a test is all that its client and agent-sh see."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": f"{run}/home", "TMPDIR": f"{run}/tmp", "LANG": "C.UTF-8", "TERM": "dumb", "USER": "root",
    }


def processes():
    """Everything in the namespace but this process and its init: pid -> command."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) not in (1, os.getpid()):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    found[int(pid)] = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                pass
    return found


class Jobs:
    """The test's own jobs, and what agent-sh knows of them."""

    def __init__(self, run, checks):
        self.run, self.checks = run, checks
        self.agent_sh = f"{run}/bin/agent-sh"

    def verb(self, *args, **env):
        return subprocess.run(
            [self.agent_sh, *args], env=dict(environment(self.run), **env), cwd=f"{self.run}/cwd",
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3 * SOON,
        )

    def listed(self, *args):
        """Jobs that `ps` lists, by id."""
        done = self.verb("ps", "--json", *args)
        try:
            return {job["id"]: job for job in json.loads(done.stdout)}
        except (ValueError, TypeError, KeyError):
            raise Broken(f"agent-sh ps {args}: {done.stdout!r} {done.stderr!r}") from None

    def gate(self, *names):
        for name in names:
            os.mkfifo(f"{self.run}/cwd/{name}.fifo")

    def started(self, name):
        """The pid of a job of the test, once it says that it runs."""
        path = f"{self.run}/cwd/{name}.pid"

        def said():
            try:
                with open(path) as file:
                    return file.read().endswith("\n")
            except FileNotFoundError:
                return False
        if not until(said):
            raise Broken(f"'{name}' never started")
        with open(path) as file:
            return int(file.read())

    def alive(self, name):
        """Whether the job's process is there and is still that job, not another with its number."""
        try:
            with open(f"/proc/{self.started(name)}/cmdline", "rb") as file:
                return name.encode() in file.read().split(b"\0")
        except OSError:
            return False

    def release(self, name):
        """Lets a job of the test end; whether there was one to let go."""
        try:
            gate = os.open(f"{self.run}/cwd/{name}.fifo", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads
            return False
        os.write(gate, b"go\n")
        os.close(gate)
        return True

    def id_of(self, name):
        """The job's id, by the pid that it told."""
        pid = self.started(name)
        found = [job for job, row in self.listed("-a", "-A").items() if row["pid"] == pid]
        if len(found) != 1:
            raise Broken(f"'{name}' (pid {pid}) is listed {len(found)} times")
        return found[0]

    def records(self):
        """All terminal records in the store."""
        found = []
        for path in glob.glob(f"{self.run}/home/.local/state/agent-sh/**/exit.json", recursive=True):
            with open(path) as file:
                found.append(json.load(file))
        return found

    def recorded(self, job):
        return until(lambda: any(record["data"]["job"] == job for record in self.records()))

    def nothing_left(self, what="no process is left"):
        until(lambda: not processes())
        self.checks.same(processes(), {}, what)


# ------------------------------------------------------------------------------------ in the namespaces


def inside(test, run, program, limit):
    """As the namespaces' init: collects orphans, and ends with the test, which runs in a child."""
    child = os.fork()
    if child:
        while True:
            pid, status = os.wait()
            if pid == child:
                return os.waitstatus_to_exitcode(status)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sh22x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS

    def time_over(*_):
        raise Broken(f"not done after {limit} s")

    signal.signal(signal.SIGALRM, time_over)
    signal.alarm(limit)
    checks = Checks()
    try:
        test(run, program, checks)
    except Broken as error:
        checks.that(False, "the test came to its end", error)
    except Exception:
        checks.that(False, "the test came to its end", traceback.format_exc())
    print(f"{checks.passed} passed, {checks.failed} failed", flush=True)
    os._exit(1 if checks.failed else 0)


# ------------------------------------------------------------------------------------ outside


def agent_sh(given):
    """The program to test: the one given, else the one built last."""
    target = os.environ.get("CARGO_TARGET_DIR") or f"{PROJECT}/target"
    built = [f"{target}/{profile}/agent-sh" for profile in ("debug", "release")]
    found = [given] if given else sorted(filter(os.path.exists, built), key=os.path.getmtime)
    if not found:
        raise Skip("agent-sh is not built: cargo build")
    if not os.access(found[-1], os.X_OK):
        sys.exit(f"cannot run {found[-1]}")
    return os.path.realpath(found[-1])


def check_machine():
    if os.geteuid() != 0:
        raise Skip("needs root, for namespaces")
    for program in ("unshare", "npm"):
        if not shutil.which(program):
            raise Skip(f"needs {program}")
    done = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"no namespaces here: {done.stderr.strip()}")


def call(*args):
    try:
        done = subprocess.run(
            args, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_LIMIT
        )
    except subprocess.TimeoutExpired:
        raise Skip(f"{args[0]} {args[1]} took longer than {INSTALL_LIMIT} s") from None
    if done.returncode != 0:
        raise Skip(f"{args[0]} {args[1]} failed: {' '.join(done.stderr.split())[-500:]}")
    return done.stdout.strip()


def cache():
    """Where clients are installed."""
    found = os.environ.get("AGENT_SH_CLIENTS") or f"{tempfile.gettempdir()}/agent-sh-clients-{os.geteuid()}"
    found = os.path.abspath(found)
    os.makedirs(found, mode=0o700, exist_ok=True)
    if os.stat(found).st_uid != os.geteuid():
        raise Skip(f"{found} belongs to somebody else")
    return found


def once(home, make):
    """Fills a directory by `make(fresh)`, unless it is there; half of one is never seen."""
    if not os.path.exists(home):
        fresh = tempfile.mkdtemp(prefix="install-", dir=os.path.dirname(home))
        try:
            make(fresh)
            os.rename(fresh, home)
        except OSError:  # another run was faster
            if not os.path.exists(home):
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return home


def npm_package(package, name, version):
    """The directory that an npm package is installed in, and its version."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        version = call("npm", "view", f"{package}@{version}", "version")
    home = f"{cache()}/{name}-{version}"
    once(home, lambda fresh: call(
        "npm", "install", "--prefix", fresh, "--no-fund", "--no-audit", f"{package}@{version}"
    ))
    return home, version


def large_program(patterns):
    """Of files that match, one that is a program and no small script in its place: a package's own program
    may be one until its install script has run, and npm may be set not to run such scripts."""
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    found = [path for path in found if os.access(path, os.X_OK) and os.path.getsize(path) > 1 << 20]
    if not found:
        raise Skip(f"no program for this machine in {patterns}")
    return found[0]


def lay_out(run, program):
    for name in ("bin", "home", "tmp", "cwd", "cwd/sub"):
        os.mkdir(f"{run}/{name}")
    for name in ("agent-sh", "agent-sh-bash"):
        os.symlink(program, f"{run}/bin/{name}")
    with open(f"{run}/cwd/job", "w") as file:
        file.write(JOB)
    os.chmod(f"{run}/cwd/job", 0o755)


def outside(options, script, title, install, limit):
    program = agent_sh(options.agent_sh)
    check_machine()
    client, version = install(options.client_version)
    run = os.path.realpath(tempfile.mkdtemp(prefix="agent-sh-client-"))
    print(f"agent-sh: {program}\nclient: {title} {version}", flush=True)
    try:
        lay_out(run, program)
        inner = subprocess.Popen([*NAMESPACES, sys.executable, script, "--inside", run, client])
        try:
            return inner.wait(limit + 20)
        except subprocess.TimeoutExpired:
            print("FAILED the test came to its end: it hangs", flush=True)
            return 1
        finally:
            inner.kill()  # and with it all that is in the namespaces
            inner.wait()
    finally:
        if options.keep:
            print(f"kept: {run}", file=sys.stderr)
        else:
            shutil.rmtree(run, ignore_errors=True)


def main(script, title, version, install, test, limit):
    """`install(version)` gives the client's program and version; `test(run, program, checks)` checks."""
    parser = argparse.ArgumentParser(description=f"Proves that agent-sh works as the shell of {title}.")
    parser.add_argument("--strict", action="store_true", help="fail where the test would be skipped")
    parser.add_argument("--agent-sh", metavar="PATH", help="the program to test; else the one that cargo built last")
    parser.add_argument("--client-version", metavar="V", default=version, help="of the npm package (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the directory of the run, to look at")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(test, *options.inside, limit)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of what cleans up
    try:
        return outside(options, os.path.abspath(script), title, install, limit)
    except Skip as reason:
        print(f"SKIPPED: {reason}", flush=True)
        return 1 if options.strict else 0
