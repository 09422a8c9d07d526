#!/usr/bin/python3
"""Makes the Helm chart in chart/ of the Kustomize base: make_chart.py [--check]. Needs kubectl and PyYAML.

VALUES is all that a chart's user may set; everything else is as in the base. --check only says whether chart/ is current."""
import pathlib
import re
import subprocess
import sys

import yaml

FOLDER = pathlib.Path(__file__).resolve().parent
CHART = FOLDER / "chart"

# name in values.yaml: kind, path in the object, and what it is. The default is the base's.
VALUES = {
    "image": ("Deployment", "spec.template.spec.containers.0.image", "the server's image, with registry and tag"),
    "replicas": ("Deployment", "spec.replicas", "of the server; an autoscaler takes it over"),
    "cpu": ("Deployment", "spec.template.spec.containers.0.resources.requests.cpu", "cores that a replica is sure of"),
    "memory": ("Deployment", "spec.template.spec.containers.0.resources.requests.memory", "memory that a replica is sure of"),
    "memoryLimit": ("Deployment", "spec.template.spec.containers.0.resources.limits.memory", "twice the memory for requests"),
    "keysSecret": ("Deployment", "spec.template.spec.volumes.0.secret.secretName", "has keys.json, of `upscaled keys new`"),
    "gracePeriod": ("Deployment", "spec.template.spec.terminationGracePeriodSeconds", "seconds, more than a replica drains"),
    "maxUnavailable": ("PodDisruptionBudget", "spec.maxUnavailable", "replicas that may be missing while nodes are emptied"),
}


def walk(node, path):
    """The container that holds the path's last step, and that step."""
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in steps:
        node = node[step]
    return node, last


def chart():
    """Texts of the chart's files by name."""
    done = subprocess.run(["kubectl", "kustomize", FOLDER / "base"], capture_output=True, text=True, check=True)
    objects = [document for document in yaml.safe_load_all(done.stdout) if document]
    defaults = ""
    for name, (kind, path, meaning) in VALUES.items():
        (target,) = [document for document in objects if document["kind"] == kind]
        holder, last = walk(target, path)
        defaults += f"{name}: {yaml.safe_dump(holder[last]).splitlines()[0]} # {meaning}\n"
        # Strings stay strings, be they all digits.
        holder[last] = f"{{{{ .Values.{name}{' | quote' if isinstance(holder[last], str) else ''} }}}}"
    files = {f"templates/{document['kind'].lower()}-{document['metadata']['name']}.yaml": document for document in objects}
    # What YAML would quote is for Helm to replace first.
    files = {name: re.sub(r"'(\{\{.*?\}\})'", r"\1", yaml.safe_dump(document)) for name, document in files.items()}
    version = re.search(r"project\(upscaled VERSION ([\d.]+)", (FOLDER.parents[1] / "CMakeLists.txt").read_text())[1]
    head = "# Made by make_chart.py of the Kustomize base; not to be edited.\n"
    about = {"apiVersion": "v2", "name": "upscaled", "description": "A network image-upscaling service", "type": "application",
             "version": version, "appVersion": version}
    files["Chart.yaml"] = head + yaml.safe_dump(about, sort_keys=False)
    files["values.yaml"] = head + defaults
    return files


def main():
    wanted = chart()
    there = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*.yaml")}
    if "--check" in sys.argv:
        stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
        if stale:
            print(f"not what the base makes, run {pathlib.Path(__file__).name}: {', '.join(stale)}")
        return 1 if stale else 0
    for name in there.keys() - wanted.keys():
        (CHART / name).unlink()
    for name, text in wanted.items():
        (CHART / name).parent.mkdir(parents=True, exist_ok=True)
        (CHART / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
