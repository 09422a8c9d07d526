#!/usr/bin/env python3
"""Counts the models of OpenModelDB by architecture, and those that run here.

    count_database.py            prints the stored counts
    count_database.py FOLDER     counts those of a checkout of OpenModelDB/open-model-database, and stores them

The counts lie in openmodeldb.tsv beside this script. Its third column names our architecture; "-": none.
"""
import collections
import json
import pathlib
import sys

FACTS = pathlib.Path(__file__).with_name("openmodeldb.tsv")


def stored():
    lines = FACTS.read_text().splitlines()
    return [line for line in lines if line.startswith("#")], [line.split("\t") for line in lines if line[0] != "#"]


def count(folder):
    models = (json.loads(path.read_text()) for path in pathlib.Path(folder, "data/models").glob("*.json"))
    return collections.Counter(model["architecture"] for model in models)


def main():
    head, rows = stored()
    if len(sys.argv) > 1:
        ours = {name: runs_as for name, _, runs_as in rows}
        counts = sorted(count(sys.argv[1]).items(), key=lambda row: (-row[1], row[0]))
        rows = [[name, str(models), ours.get(name, "-")] for name, models in counts]
        FACTS.write_text("\n".join(head + ["\t".join(row) for row in rows]) + "\n")
    for name, models, runs_as in rows:
        print(f"{models:>4}  {name:<20}  {'not yet' if runs_as == '-' else runs_as}")
    runs = sum(int(models) for _, models, runs_as in rows if runs_as != "-")
    print(f"{runs} of {sum(int(models) for _, models, _ in rows)} are of architectures that run")


if __name__ == "__main__":
    main()
