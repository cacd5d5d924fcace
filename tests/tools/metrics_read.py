#!/usr/bin/env -S /usr/bin/python3 -I
"""Prints the samples of metrics on standard input, each as NAME LABEL=VALUE… VALUE with the labels in order.

	metrics_read.py prometheus|openmetrics

Fails if they are invalid or a sample comes twice.
"""
import sys

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

PARSERS = {"prometheus": parser.text_string_to_metric_families, "openmetrics": openmetrics.text_string_to_metric_families}

seen = set()
for family in PARSERS[sys.argv[1]](sys.stdin.read()):
    for sample in family.samples:
        labels = [f"{name}={value}" for name, value in sorted(sample.labels.items())]
        key = (sample.name, *labels)
        if key in seen:
            sys.exit(f"twice: {key}")
        seen.add(key)
        print(*key, f"{sample.value:.15g}")
