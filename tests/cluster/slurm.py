#!/usr/bin/env python3
"""A crawl on a real Slurm, with losses: what was merged against what the target counted.

    python3 tests/cluster/slurm.py --program target/debug/crawlmark

Starts a Slurm of three nodes on this host (see one_host) and the bundled target, and submits twelve parts, three at a time. In the first ones,

    a task is killed                        SIGKILL of its crawl: nothing of its end is written
    a node is lost                          its slurmd is killed and the node set down, while its task goes on unseen, beside its successor
    a task is cancelled and requeued        scontrol requeue: SIGTERM, and a result that is marked

Then each ID has to be in the merged ledger once, the target must have seen no more than the budget in any window, and what it saw in addition
has to be what the merge reports. Takes about two minutes. Needs root, Python 3.9 or later, and Debian's slurm-wlm and munge; without them, it
says what is missing and ends with 0. All traffic stays on loopback.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
NEEDED = ("slurmctld", "slurmd", "sbatch", "scontrol", "munged", "setpriv")
PARTS, SLOTS, NODES = 12, 3, 3
IDS, RATE, CONNECTIONS = 8_400, 150, 12
DEADLINE_S = 150
# Beats of a status come once a second, whatever the machine does: with ten times that, one is not lost by chance.
LOST_AFTER_S = 10


class Checks:
    passed = failed = 0

    def check(self, what, holds, seen=""):
        self.passed += bool(holds)
        self.failed += not holds
        print(("ok     " if holds else "FAILED ") + what + ("" if holds else f" [{seen}]"), flush=True)

    def equal(self, what, ours, theirs):
        self.check(f"{what}: {ours}", ours == theirs, f"expected {theirs}")


def run(*words, check=True):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def wait_for(what, look, deadline_s=DEADLINE_S):
    """Wait until `look` returns something."""
    end = time.monotonic() + deadline_s
    while not (found := look()):
        if time.monotonic() > end:
            raise SystemExit(f"waited {deadline_s} s for {what}\n{run('squeue', '--array', check=False).stdout}")
        time.sleep(0.2)
    return found


@contextlib.contextmanager
def slurm(place):
    """A cluster, ended with what it runs."""
    # All that follows speaks to this Slurm, and to no other one that the host may have.
    os.environ["SLURM_CONF"] = str(place / "slurm.conf")
    try:
        run(HERE / "one_host", "start", place, NODES)
        yield
    finally:
        run("scancel", "--user=root", check=False)
        wait_for("the end of all jobs", lambda: not run("squeue", "--noheader", check=False).stdout, 30)
        run(HERE / "one_host", "stop", place, check=False)


@contextlib.contextmanager
def target(program):
    words = [str(program), "serve", "--listen", "127.0.0.1:0", "--latency", "fixed:20ms"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as served:
        try:
            yield served.stdout.readline().rsplit(" ", 1)[1].strip()
        finally:
            served.send_signal(signal.SIGTERM)
            served.communicate(timeout=30)


def attempts(crawl, part):
    """The attempts at a part, with their last status."""
    found = {}
    for path in sorted(crawl.glob(f"part-{part:05}/*/status.json")):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            found[path.parent.name] = json.loads(path.read_text())
    return found


def pid_of(attempt):
    return int(attempt.split("-")[-2])


def is_alive(attempt):
    try:
        os.kill(pid_of(attempt), 0)
    except ProcessLookupError:
        return False
    return True


class Job:
    """A job array."""

    def __init__(self, number):
        self.number = number

    def tasks(self):
        """The state, reason and node of each task that has not ended."""
        lines = run("squeue", "--array", "--noheader", "--jobs", self.number, "--format=%K|%T|%r|%N", check=False).stdout
        return {int(line.split("|")[0]): line.split("|")[1:] for line in lines.splitlines()}

    def task(self, part):
        return f"{self.number}_{part}"

    def start_again(self, part):
        """Slurm lets a requeued task wait for two minutes, and others go first: not here. Priorities begin at 4,294,901,759."""
        wait_for(f"task {part} to be requeued", lambda: self.tasks().get(part, [""])[0] == "PENDING")
        run("scontrol", "update", f"jobid={self.task(part)}", "starttime=now", "priority=4294950000")


def crawl_with_losses(program, crawl, job, checks):
    """Lose three of the first tasks, each in its own way."""

    def running():
        found = {}
        for part in range(PARTS):
            alive = [name for name, status in attempts(crawl, part).items() if status["items"] > 0 and is_alive(name)]
            node = job.tasks().get(part, ["", "", ""])
            if alive and node[0] == "RUNNING":
                found[part] = (alive[0], node[2])
        return found if len(found) == NODES else None

    (killed, zombie, cancelled) = wait_for("three running parts", running).items()
    print(f"killed: part {killed[0]} on {killed[1][1]}, node lost: part {zombie[0]} on {zombie[1][1]}, requeued: part {cancelled[0]} on {cancelled[1][1]}")
    # The successor of the lost task gets the node of the requeued one, at once.
    run(HERE / "one_host", "kill", pathlib.Path(os.environ["SLURM_CONF"]).parent, zombie[1][1])
    run("scontrol", "update", f"nodename={zombie[1][1]}", "state=down", "reason=lost")
    job.start_again(zombie[0])
    os.kill(pid_of(killed[1][0]), signal.SIGKILL)
    run("scontrol", "requeue", job.task(cancelled[0]))
    result = crawl / f"part-{zombie[0]:05}" / "RESULT"
    wait_for("a successor of the lost task", lambda: len(attempts(crawl, zombie[0])) > 1 or result.exists())
    if len(attempts(crawl, zombie[0])) > 1:
        checks.check("the task of a lost node went on beside its successor", is_alive(zombie[1][0]) or result.exists(), attempts(crawl, zombie[0]))
    else:
        print("skipped: two attempts at once: this machine is slow, and the lost task ended before its successor began")
    job.start_again(cancelled[0])
    marked = wait_for("the end of the requeued task", lambda: next(crawl.glob(f"part-{cancelled[0]:05}/{cancelled[1][0]}/attempt.json"), None))
    checks.equal("a requeued task leaves a marked result: whole", json.loads(marked.read_text())["whole"], False)
    report = json.loads((marked.parent / "result" / "result.json").read_text())
    checks.equal("interrupted by", report["interrupted_by"], int(signal.SIGTERM))
    seen = json.loads(run(program, "watch", crawl, "--once", "--json", "--lost-after", f"{LOST_AFTER_S}s").stdout)
    checks.check("watch: a killed part is lost, or its successor is there", seen["parts"]["lost"] == 1 or len(attempts(crawl, killed[0])) > 1, seen["parts"])
    wait_for("the killed task to be requeued", lambda: job.tasks().get(killed[0], ["", ""])[0] == "PENDING")
    job.start_again(killed[0])
    return killed, zombie, cancelled


def submit(program, plan, crawl, parts, slots, *flags):
    """Submit a job array, and the merge behind it, as the book has it. Return the number of the array."""
    scripts, log = HERE.parent.parent / "results" / "cluster" / "slurm", crawl / "slurm"
    log.mkdir(parents=True)
    array = ["sbatch", "--parsable", f"--array=0-{parts - 1}%{slots}", f"--output={log}/%A_%a.log"]
    job = run(*array, scripts / "part.sh", program, plan, crawl, 0, parts, *flags).stdout.strip().split(";")[0]
    merge = ["sbatch", "--parsable", f"--dependency=afterany:{job}", f"--output={log}/merge.log"]
    run(*merge, scripts / "merge.sh", program, crawl)
    return job


def without_retry(program, place, url, checks):
    """A configuration error ends a task for good."""
    plan, crawl = place / "wrong.json", place / "wrong"
    run(program, "plan", url, "--ids", "0..10", "--rate", "10", "--nodes", "1", "--out", plan)
    number = submit(program, plan, crawl, 1, 1, "--rate", "9")

    def ended():
        fields = dict(word.split("=", 1) for word in run("scontrol", "--oneliner", "show", "job", f"{number}_0").stdout.split() if "=" in word)
        return fields if fields["JobState"] in ("FAILED", "COMPLETED", "CANCELLED") else None

    fields = wait_for("the end of a task with a wrong flag", ended)
    found = (fields["JobState"], fields["ExitCode"], fields["Restarts"])
    checks.equal("a usage error is not tried again: state, exit code, restarts", found, ("FAILED", "2:0", "0"))


def compare(program, crawl, plan, books, checks):
    """Hold the merge against the target's own counts."""
    merged = json.loads((crawl / "merged" / "result.json").read_text())
    of_parts, ledger, sent = merged["merged"], merged["ledger"], merged["totals"]["attempts_sent"]
    # A part that was run again takes over what the attempt before it had saved.
    kept = merged.get("finished_before") or 0
    checks.check(f"items in the merged ledger: {ledger['ok']} good, and {kept} that an earlier attempt had saved", ledger["ok"] + kept == IDS, ledger)
    checks.equal("parts without a result", of_parts["missing_parts"], 0)
    checks.equal("different IDs that the target saw", books["unique_ids"], IDS)
    checks.equal("attempts that died", of_parts["died_attempts"], 1)
    checks.equal("attempts without a count of their requests", of_parts["uncounted_attempts"], 0)
    # A shard counts a request right before it sends it: one that is killed in between has counted one more than the target saw.
    unsent = sent + of_parts["additional_requests"] - books["requests"]
    known = f"{sent} merged + {of_parts['additional_requests']} reported in addition"
    checks.check(f"requests that the target saw: {books['requests']} = {known} - {unsent} not sent by a shard that was killed", 0 <= unsent <= CONNECTIONS // SLOTS, unsent)
    checks.equal("requests for an ID that came before", books["duplicate_ids"], books["requests"] - IDS)
    for width, peaks in books["busiest"].items():
        seconds = {"10ms": 0.01, "100ms": 0.1, "1s": 1.0}[width]
        # What arrives may have been delayed, by no more than the connections hold.
        allowed = RATE * seconds + plan["crawl"]["burst"] + CONNECTIONS
        checks.check(f"at most the budget in each window of {width}: {peaks['requests']} of {allowed:.0f}", peaks["requests"] <= allowed)
    checks.equal("verdict on a run with losses", merged["validity"]["verdict"], "disturbed")
    verified = run(program, "verify", crawl, "--json", check=False)
    found = json.loads(verified.stdout) if verified.stdout.startswith("{") else {}
    checks.check("verify is clean over all parts", verified.returncode == 0, verified.stdout + verified.stderr)
    checks.equal("records in all parts", found.get("recorded"), IDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    program = parser.parse_args().program.resolve()
    missing = [name for name in NEEDED if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing or os.geteuid() != 0:
        print("skipped: the crawl on Slurm: " + (f"{', '.join(missing)} not found" if missing else "it needs root"))
        return 0
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    checks, begun = Checks(), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        # munged has a user of its own.
        place.chmod(0o755)
        with slurm(place / "slurm"), target(program) as url:
            plan, crawl = place / "plan.json", place / "crawl"
            words = ["--ids", f"0..{IDS}", "--rate", RATE, "-c", CONNECTIONS, "--nodes", PARTS, "--slots", SLOTS, "--save", "items"]
            run(program, "plan", url + "/items/{id}", *words, "--out", plan)
            job = Job(submit(program, plan, crawl, PARTS, SLOTS))
            killed, zombie, cancelled = crawl_with_losses(program, crawl, job, checks)
            wait_for("the merge", lambda: (crawl / "merged" / "result.json").exists() or not run("squeue", "--noheader").stdout)
            if not (crawl / "merged" / "result.json").exists():
                raise SystemExit((crawl / "slurm" / "merge.log").read_text())
            winner = json.loads((crawl / f"part-{zombie[0]:05}" / "RESULT").read_text())["attempt"]
            print(f"part {zombie[0]}: {'the unseen task' if winner == zombie[1][0] else 'its successor'} was first")
            checks.check("one attempt at it counts", winner in attempts(crawl, zombie[0]), winner)
            for part, (attempt, _) in (killed, cancelled):
                winner = json.loads((crawl / f"part-{part:05}" / "RESULT").read_text())["attempt"]
                checks.check(f"another attempt at part {part} counts", winner != attempt, winner)
            with urllib.request.urlopen(url + "/__admin/ledger") as answer:
                books = json.load(answer)
            compare(program, crawl, json.loads(plan.read_text()), books, checks)
            without_retry(program, place, url, checks)
    print(f"{checks.passed} checks passed, {checks.failed} failed, in {time.monotonic() - begun:.0f} s")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
