#!/usr/bin/env python3
"""Reads the tables and histogram logs of a bundle with readers that share no code with tautline, and
compares them with the figures of its report.json.

    pip install hdrhistogram        # for the .hlog files; without it they are said to be left out
    tools/check_bundle.py DIR...

Prints a line for each file: how many figures were compared, and each that differs. Exit status: 0 all
agree, 1 something differs, 2 a folder cannot be read or holds nothing to compare, or bad usage. Unlike
`tautline verify` it checks no checksums, and rounds nothing the way the program does.
"""

import csv
import json
import math
import statistics
import sys
from pathlib import Path

try:
    from hdrh.histogram import HdrHistogram
except ImportError:
    HdrHistogram = None


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    return max(bundle(Path(folder)) for folder in arguments)


def bundle(folder):
    """Compares every file of one bundle that there is a reader for."""
    try:
        report = json.loads((folder / "report.json").read_text())
        differing = compared = 0
        for name, check in CHECKS.items():
            if not (folder / name).exists():
                continue
            if name.endswith(".hlog") and HdrHistogram is None:
                print(f"{folder / name}: left out: pip install hdrhistogram")
                continue
            found = Found()
            check(found, read(folder / name), report)
            print(f"{folder / name}: {found.compared} figures compared, {len(found.wrong)} differ")
            for sentence in found.wrong:
                print(f"    {sentence}")
            compared += found.compared
            differing += len(found.wrong)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as why:
        print(f"{folder}: it cannot be compared: {type(why).__name__}: {why}", file=sys.stderr)
        return 2
    if compared == 0:
        print(f"{folder}: nothing in it could be compared", file=sys.stderr)
        return 2
    verdict = "agree" if differing == 0 else f"{differing} differ"
    print(f"{folder}: {compared} figures, {verdict}")
    return 1 if differing else 0


def read(path):
    """A table as its rows, or a log as (tag, histogram)."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    lines = []
    for line in path.read_text().splitlines():
        if line.startswith("Tag="):
            tag, _, _, _, encoded = line[len("Tag="):].split(",")
            lines.append((tag, decoded(encoded, tag)))
    return lines


def decoded(text, tag):
    # Its own errors have nothing in common but this.
    try:
        return HdrHistogram.decode(text)
    except Exception as why:
        raise ValueError(f"the histogram of {tag}: {type(why).__name__}: {why}") from why


class Found:
    """What was compared, and what differed."""

    def __init__(self):
        self.compared = 0
        self.wrong = []

    def same(self, where, found, expected, share=1e-9):
        """An empty field is null; what is computed anew may differ by a rounding."""
        self.compared += 1
        if expected is None:
            agrees = found in (None, "")
        elif isinstance(expected, bool):
            agrees = str(found).lower() == str(expected).lower()
        elif isinstance(expected, str):
            agrees = found == expected
        else:
            number = math.nan if found in (None, "") else float(found)
            agrees = math.isclose(number, expected, rel_tol=share, abs_tol=1e-9)
        if not agrees:
            self.wrong.append(f"{where}: {found!r} here, {expected!r} in report.json")

    def row(self, where, row, fields):
        for column, expected in fields.items():
            self.same(f"{where} {column}", row[column], expected)

    def rows(self, table, expected):
        """A row of the table for each of the expected ones, in their order."""
        self.same("rows", len(table), len(expected))
        for number, (row, fields) in enumerate(zip(table, expected), start=1):
            self.row(f"row {number}", row, fields)


def us(ns):
    return None if ns is None else ns / 1e3


def named(source, names):
    """Fields that are called otherwise in a table: column from field."""
    return {column: source[field] for column, field in names.items()}


def alike(source, *fields):
    return {field: source[field] for field in fields}


def in_us(source, *figures):
    return {f"{figure}_us": us(source[f"{figure}_ns"]) for figure in figures}


# The tables of bench: a row for each run; the report's rows follow from those.


def latency(found, table, report):
    expected = []
    for row in report["latency"]:
        for run in row["each_run"]:
            summary = run["summary"]
            expected.append(
                named(row, {"transport": "transport", "payload_size": "payload_bytes"})
                | named(row, {"iterations": "iterations", "warmup_iterations": "warmup"})
                | named(run, {"elapsed_s": "elapsed_s", "messages_sec": "messages_per_s"})
                | named(run, {"mib_sec": "mib_per_s", "outliers_over_5000us": "over_5ms"})
                | named(run, {"outliers_over_10000us": "over_10ms"})
                | named(run, {"outliers_over_50000us": "over_50ms", "run": "run"})
                | in_us(summary, "min", "p50", "p95", "p99", "max")
                | {"avg_us": us(summary["mean_ns"]), "p99_9_us": us(summary["p999_ns"])}
                | {"driver": row["driver"], "samples": summary["count"]}
                | alike(summary, "lost", "stray", "corrupted")
                | {f"{driver}_p50_ratio": ratio for driver, ratio in ratios(row, run["run"])}
            )
    found.rows(table, expected)
    for row in report["latency"]:
        runs = of(table, transport=row["transport"], payload_size=row["payload_bytes"])
        where = f"{row['transport']} {row['payload_bytes']} B: all runs:"
        rates = [float(run["messages_sec"]) for run in runs if run["messages_sec"]]
        found.same(f"{where} median messages_sec", statistics.median(rates), row["messages_per_s"])
        found.same(f"{where} samples", sum(int(run["samples"]) for run in runs), row["count"])
        found.same(f"{where} min_us", min(floats(runs, "min_us")), us(row["min_ns"]))
        found.same(f"{where} max_us", max(floats(runs, "max_us")), us(row["max_ns"]))
        for limit, column in (("5ms", "5000us"), ("10ms", "10000us"), ("50ms", "50000us")):
            over = sum(int(run[f"outliers_over_{column}"]) for run in runs)
            found.same(f"{where} over {limit}", over, row[f"over_{limit}"])


def ratios(row, run):
    """Of each driver over the control, the median of this run's rounds."""
    for driver in row["drivers"]:
        pairs = [pair for pair in driver["rounds"] if pair["run"] == run and pair["control"] > 0]
        each = [pair["product"] / pair["control"] for pair in pairs]
        yield driver["driver"], statistics.median(each) if each else None


def of(table, **keys):
    """The rows with these fields."""
    texts = {column: str(value) for column, value in keys.items()}
    return [row for row in table if all(row[column] == text for column, text in texts.items())]


def floats(rows, column):
    return [float(row[column]) for row in rows if row[column] != ""]


def strategy(found, table, report):
    expected = []
    for row in report["strategy"]:
        size = row["payload_bytes"]
        for run in row["each_run"]:
            sender, receiver = run["sender"], run["receiver"]
            mib = size / 2**20 / run["elapsed_s"] if run["elapsed_s"] > 0 else None
            accepted, received = run["accepted_messages"], run["received_messages"]
            fields = (
                alike(row, "transport", "strategy")
                | {"payload_size": size, "duration_s": run["elapsed_s"], "run": run["run"]}
                | alike(run, "accepted_messages", "failed_sends", "offered_messages")
                | alike(run, "received_messages", "evicted_messages")
                | alike(run["integrity"], "gaps", "duplicates", "reordered", "corrupted")
                | {"accepted_bytes": accepted * size, "received_bytes": received * size}
                | {"accepted_mib_sec": None if mib is None else accepted * mib}
                | {"received_mib_sec": None if mib is None else received * mib}
                | {"delivery_rate": received * 100 / accepted if accepted else None}
                | {"control_received_mib_sec": run["control_received_mib_per_s"]}
                | named(sender, {"client_messages_accepted": "accepted_messages"})
                | named(sender, {"client_bytes_accepted": "accepted_bytes"})
                | named(sender, {"client_messages_sent": "written_messages"})
                | named(sender, {"client_bytes_sent": "written_bytes"})
                | named(sender, {"client_backpressure_events": "pressure_events"})
                | named(sender, {"client_max_queued_bytes": "max_queued_bytes"})
            )
            if receiver is not None:
                fields |= named(receiver, {"server_messages_received": "received_messages"})
                fields |= named(receiver, {"server_bytes_received": "received_payload_bytes"})
            expected.append(fields)
    found.rows(table, expected)
    for row in report["strategy"]:
        keys = {"transport": row["transport"], "strategy": row["strategy"]}
        runs = of(table, payload_size=row["payload_bytes"], **keys)
        where = f"{row['transport']} {row['strategy']} {row['payload_bytes']} B: all runs:"
        for column in ("offered_messages", "accepted_messages", "received_messages"):
            found.same(f"{where} {column}", sum(int(run[column]) for run in runs), row[column])
        for column, field in (("accepted_mib_sec", "accepted_mib_per_s"),
                              ("received_mib_sec", "received_mib_per_s")):
            median = statistics.median(floats(runs, column))
            found.same(f"{where} median {column}", median, row[field])
        queued = max(int(run["client_max_queued_bytes"]) for run in runs)
        found.same(f"{where} most queued, KiB", queued / 1024, row["max_queue_kib"])


def raw_smoke(found, table, report):
    rows = [row for row in report["udp_smoke"] if row["runtime"] is None]
    found.rows(table, [smoke_fields(row) for row in rows])


def smoke(found, table, report):
    expected = []
    for row in report["udp_smoke"]:
        if row["runtime"] is None:
            continue
        fields = smoke_fields(row) | {"strategy": row["path"]}
        fields |= {"stopped_early": row["stopped_early"]}
        for end in ("client", "server"):
            counters = row["runtime"][end]
            names = {"failed_sends": "refused_messages", "dropped_messages": "discarded_messages",
                     "dropped_bytes": "discarded_bytes", "backpressure_events": "pressure_events",
                     "max_queued_bytes": "max_queued_bytes", "queued_bytes_final": "waiting_bytes"}
            fields |= {f"{end}_{column}": counters[field] for column, field in names.items()}
        server = row["runtime"]["server"]
        fields |= named(server, {"server_messages_received": "received_messages"})
        fields |= named(server, {"server_bytes_received": "received_payload_bytes"})
        expected.append(fields)
    found.rows(table, expected)


def smoke_fields(row):
    rate = row["client_received"] / row["elapsed_s"] if row["elapsed_s"] > 0 else None
    return (
        named(row, {"payload_size": "payload_bytes", "warmup_iterations": "warmup"})
        | named(row, {"send_success": "sent", "echo_matches": "matched"})
        | alike(row, "iterations", "send_attempts", "send_failures", "server_received")
        | alike(row, "client_received", "timeouts", "delivery_percent", "match_percent")
        | {"elapsed_ms": row["elapsed_s"] * 1e3, "messages_per_sec": rate}
        | {"classification": row["classification"]}
    )


# The tables of ping, stream, wakeup and soak.


def ping(found, table, report):
    expected = []
    for cell in report["cells"]:
        fields = alike(
            cell, "address", "transport", "connections", "threads", "pacing", "warmup", "elapsed_s",
            "sent", "received", "lost", "lost_up", "lost_down", "duplicate", "reordered", "late",
            "corrupted", "in_flight_at_end", "late_sends",
        )
        fields |= {"payload_size": cell["payload_bytes"]} | times(cell["rtt"], "")
        fields |= times(cell["response"], "response_") if cell["response"] else {}
        expected.append(fields)
    found.rows(table, expected)


def times(of_cell, prefix):
    fields = {"count": of_cell["count"]} | in_us(of_cell, "min", "mean", "stddev", "max")
    for asked in of_cell["percentiles"]:
        digits = f"{asked['percentile']:.10g}".replace(".", "_")
        fields[f"p{digits}_us"] = us(asked["value_ns"])
    fields |= alike(of_cell, "over_1ms", "over_5ms", "over_10ms", "over_20ms")
    return {f"{prefix}{column}": value for column, value in fields.items()}


def ping_slices(found, table, report):
    found.rows(table, [
        {"address": cell["address"], "payload_size": cell["payload_bytes"]}
        | alike(slice, "start_s", "seconds", "sent", "received")
        | in_us(slice, "mean", "p50", "p99", "max")
        for cell in report["cells"] for slice in cell["slices"]
    ])


def stream(found, table, report):
    expected = []
    for row in report["stream"]:
        delay = row["queue_delay"]
        expected.append(
            alike(
                row, "address", "transport", "strategy", "asked_rate_hz", "offered_per_s", "elapsed_s",
                "offered", "accepted", "refused", "evicted", "discarded", "delivered", "lost",
                "duplicates", "reordered", "corrupted", "receiving_s", "max_queue_kib",
                "pressure_events", "write_calls", "accounting_closes",
            )
            | named(row, {"payload_size": "payload_bytes", "mib_sec": "mib_per_s"})
            | named(row, {"gbit_sec": "gbit_per_s"})
            | {"queue_delay_count": delay["count"], "queue_delay_p99_9_us": us(delay["p999_ns"])}
            | {f"queue_delay_{column}": value
               for column, value in in_us(delay, "p50", "p95", "p99", "max").items()}
        )
    found.rows(table, expected)


def stream_slices(found, table, report):
    found.rows(table, [
        {"address": row["address"], "payload_size": row["payload_bytes"]}
        | alike(slice, "start_s", "seconds", "offered", "accepted", "written")
        for row in report["stream"] for slice in row["slices"]
    ])


def wakeup(found, table, report):
    of_soak = (report["soak"] or {}).get("wakeup")
    idle = of_soak["idle"] if of_soak else report["wakeup"]
    loaded = of_soak["loaded"] if of_soak else []
    found.rows(table, [
        {"load": load, "interval_us": us(row["interval_ns"])}
        | alike(row, "cpu", "priority", "count") | in_us(row, "min", "mean", "max")
        for load, rows in (("none", idle), ("primes", loaded)) for row in rows
    ])


def soak(found, table, report):
    expected = []
    for phase in report["soak"]["rounds"]:
        of_phase = alike(phase, "load", "repeat")
        for number, sender in enumerate(phase["senders"], start=1):
            ms = None if sender["time_ns"] is None else sender["time_ns"] / 1e6
            expected.append(
                of_phase | {"sender": str(number), "time_ms": ms}
                | alike(sender, "pings", "further_pings", "corrupted")
                | in_us(sender, "min", "mean", "max")
            )
        rtt = phase["rtt"]
        expected.append(
            of_phase | {"sender": "all", "pings": rtt["count"]}
            | in_us(rtt, "min", "mean", "p50", "p99", "max")
            | {"p99_9_us": us(rtt["p999_ns"]), "p99_99_us": us(rtt["p9999_ns"])}
            | {"p99_999_us": us(rtt["p99999_ns"])}
            | alike(phase, "over_1ms", "over_5ms", "over_10ms", "over_20ms")
        )
    found.rows(table, expected)


def soak_slices(found, table, report):
    found.rows(table, [
        alike(phase, "load", "repeat") | {"sender": number, "second": second}
        | in_us(slice, "mean", "p50", "p99")
        for phase in report["soak"]["rounds"]
        for number, sender in enumerate(phase["senders"], start=1)
        for second, slice in enumerate(sender["slices"])
    ])


# The logs: a histogram for each distribution, against the figures that the report states of it.


def latency_log(found, log, report):
    sides = []
    for row in report["latency"]:
        name = f"{row['transport']}_{row['payload_bytes']}"
        sides += [(f"{name}_{driver['driver']}", driver) for driver in row["drivers"]]
        sides.append((f"{name}_control", row["control"]))
    points = {50: "p50_ns", 95: "p95_ns", 99: "p99_ns", 99.9: "p999_ns"}
    distributions(found, log, [(tag, side, stated(side, points)) for tag, side in sides])


def ping_log(found, log, report):
    sides = []
    for cell in report["cells"]:
        for kind in ("rtt", "response"):
            side = cell[kind]
            if side is None:
                continue
            percentiles = {of["percentile"]: of["value_ns"] for of in side["percentiles"]}
            sides.append((f"{cell['address']}_{cell['payload_bytes']}_{kind}", side, percentiles))
    distributions(found, log, sides)


def soak_log(found, log, report):
    points = {50: "p50_ns", 99: "p99_ns", 99.9: "p999_ns", 99.99: "p9999_ns", 99.999: "p99999_ns"}
    distributions(found, log, [
        (f"{phase['load']}_{phase['repeat']}", phase["rtt"], stated(phase["rtt"], points))
        for phase in report["soak"]["rounds"]
    ])


def stated(side, points):
    return {percent: side[field] for percent, field in points.items()}


def distributions(found, log, sides):
    sides = [side for side in sides if side[1]["hdr"] is not None]
    found.same("tags", ", ".join(tag for tag, _ in log), ", ".join(tag for tag, _, _ in sides))
    for (tag, histogram), (_, side, percentiles) in zip(log, sides):
        count = histogram.get_total_count()
        found.same(f"{tag} count", count, side["count"])
        # A histogram knows its values to one of its steps, the report has the extremes exactly.
        for name, value in (("min", histogram.get_min_value()), ("max", histogram.get_max_value())):
            found.same(f"{tag} {name}", value, side[f"{name}_ns"], share=STEP)
        found.same(f"{tag} mean", histogram.get_mean_value(), side["mean_ns"], share=STEP)
        for percent, value in percentiles.items():
            if value is None:
                continue
            # The smallest rank that this share lies at or below.
            rank = math.ceil(round(percent * count / 100, 6))
            here = histogram.get_value_at_percentile(100 * rank / count)
            within = min(max(here, side["min_ns"]), side["max_ns"])
            found.same(f"{tag} p{percent:g}", within, value)


# Three digits are kept.
STEP = 1e-3

CHECKS = {
    "latency_matrix.csv": latency,
    "latency.hlog": latency_log,
    "strategy_sweep.csv": strategy,
    "raw_udp_payload_smoke.csv": raw_smoke,
    "udp_payload_smoke.csv": smoke,
    "ping.csv": ping,
    "ping_slices.csv": ping_slices,
    "ping.hlog": ping_log,
    "stream.csv": stream,
    "stream_slices.csv": stream_slices,
    "wakeup.csv": wakeup,
    "soak.csv": soak,
    "soak_slices.csv": soak_slices,
    "soak.hlog": soak_log,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
