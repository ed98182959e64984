#!/usr/bin/env python3
"""Reads a page of metrics from stdin with Prometheus' own library for Python, and holds it against what the format demands: every
family has its HELP and its TYPE once and before its samples, no series comes twice, histograms add up. Prints a JSON object, family ->
type and number of samples; says what is wrong on stderr and exits 1.
"""

import json
import sys

from prometheus_client.parser import text_string_to_metric_families


def main():
    page = sys.stdin.read()
    faults, told = [], {"HELP": set(), "TYPE": set()}
    if not page.endswith("\n"):
        faults.append("the page does not end with a line end")
    for line in page.splitlines():
        words = line.split(" ", 3)
        if words[0] == "#" and words[1] in told:
            if words[2] in told[words[1]]:
                faults.append(f"{words[2]} has {words[1]} twice")
            told[words[1]].add(words[2])
            if words[1] == "HELP" and (len(words) < 4 or not words[3].strip()):
                faults.append(f"{words[2]} has an empty HELP")
    if told["HELP"] != told["TYPE"]:
        faults.append(f"not both HELP and TYPE: {sorted(told['HELP'] ^ told['TYPE'])}")
    families, series = {}, set()
    for family in text_string_to_metric_families(page):
        if family.type not in ("counter", "gauge", "histogram"):
            faults.append(f"{family.name} is of type {family.type}")
        if not family.documentation:
            faults.append(f"{family.name} has no HELP")
        if not family.samples:
            faults.append(f"{family.name} has no sample")
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if key in series:
                faults.append(f"series {key} comes twice")
            series.add(key)
        faults.extend(of_histogram(family) if family.type == "histogram" else [])
        families[family.name] = {"type": family.type, "samples": len(family.samples)}
    print(json.dumps(families))
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


def of_histogram(family):
    """Buckets grow, and the last holds all."""
    groups = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        groups.setdefault(labels, []).append(sample)
    for labels, samples in groups.items():
        buckets = [(float(one.labels["le"]), one.value) for one in samples if one.name.endswith("_bucket")]
        (count,) = [one.value for one in samples if one.name.endswith("_count")]
        if buckets != sorted(buckets) or [value for _, value in buckets] != sorted(value for _, value in buckets):
            yield f"{family.name}{labels}: buckets do not grow"
        if not buckets or buckets[-1] != (float("inf"), count):
            yield f"{family.name}{labels}: the last bucket is {buckets[-1:]}, the count {count}"


main()
