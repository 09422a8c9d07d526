#!/usr/bin/python3
"""Makes the Helm chart in chart/ of the Kustomize base and PARTS: make_chart.py [--check]. Needs kubectl and PyYAML.

VALUES is all that a chart's user may set; everything else is as in the folders, but that a part's objects are there only if
its value is true. --check only says whether chart/ is current."""
import pathlib
import re
import subprocess
import sys

import yaml

FOLDER = pathlib.Path(__file__).resolve().parent
CHART = FOLDER / "chart"

SERVER = "Deployment/upscaled"
WORKERS = "Deployment/upscale-worker"
POD = "spec.template.spec"
HPA, SCALED = "HorizontalPodAutoscaler/upscaled", "ScaledObject/upscaled"

# name in values.yaml: the folder that has the part, and what it is.
PARTS = {
    "cpuAutoscaler": ("overlays/cpu", "whether Kubernetes sets the number of replicas, by CPU"),
    "kedaAutoscaler": ("overlays/keda", "or KEDA does, by CPU and backlog, which is better"),
    "worker": ("worker", "whether there are workers on queued jobs"),
}

# name in values.yaml: what it is, then objects with the path that it sets in each. The default is the first's.
VALUES = {
    "image": ("the server's and the worker's image, with registry and tag",
              (SERVER, f"{POD}.containers.0.image"), (WORKERS, f"{POD}.containers.0.image")),
    "replicas": ("of the server; an autoscaler takes it over", (SERVER, "spec.replicas")),
    "cpu": ("cores that a replica is sure of", (SERVER, f"{POD}.containers.0.resources.requests.cpu")),
    "memory": ("memory that a replica is sure of", (SERVER, f"{POD}.containers.0.resources.requests.memory")),
    "memoryLimit": ("twice the memory for requests", (SERVER, f"{POD}.containers.0.resources.limits.memory")),
    "keysSecret": ("has keys.json, of `upscaled keys new`", (SERVER, f"{POD}.volumes.0.secret.secretName")),
    "gracePeriod": ("seconds, more than a replica drains", (SERVER, f"{POD}.terminationGracePeriodSeconds")),
    "maxUnavailable": ("replicas that may be missing while nodes are emptied", ("PodDisruptionBudget/upscaled", "spec.maxUnavailable")),
    "minReplicas": ("of an autoscaler", (HPA, "spec.minReplicas"), (SCALED, "spec.minReplicaCount")),
    "maxReplicas": ("of an autoscaler", (HPA, "spec.maxReplicas"), (SCALED, "spec.maxReplicaCount")),
    "cpuPercent": ("of `cpu`, that replicas are to be busy",
                   (HPA, "spec.metrics.0.resource.target.averageUtilization"), (SCALED, "spec.triggers.0.metadata.value")),
    "backlogSeconds": ("of queued work, for each of which there is to be a replica (KEDA)", (SCALED, "spec.triggers.1.metadata.threshold")),
    "refusedPercent": ("likewise of calls that are refused", (SCALED, "spec.triggers.2.metadata.threshold")),
    "scaleInAfter": ("seconds, in which no more replicas were wanted",
                     (HPA, "spec.behavior.scaleDown.stabilizationWindowSeconds"),
                     (SCALED, "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds")),
    "prometheus": ("that scrapes the replicas",
                   (SCALED, "spec.triggers.1.metadata.serverAddress"), (SCALED, "spec.triggers.2.metadata.serverAddress")),
    "workers": ("how many, where there are any", (WORKERS, "spec.replicas")),
    "workerSecret": ("has queue, the URL of a Redis or NATS, and key, of `upscaled keys new`",
                     (WORKERS, f"{POD}.containers.0.env.1.valueFrom.secretKeyRef.name"),
                     (WORKERS, f"{POD}.containers.0.env.2.valueFrom.secretKeyRef.name")),
    "results": ("of jobs: a folder of the volume, or s3://BUCKET/PREFIX", (WORKERS, f"{POD}.containers.0.env.3.value")),
    "s3Secret": ("of S3, if there is one: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL_S3",
                 (WORKERS, f"{POD}.containers.0.envFrom.0.secretRef.name")),
    "jobsClaim": ("of the volume that workers and submitters share",
                  ("PersistentVolumeClaim/upscale-jobs", "metadata.name"), (WORKERS, f"{POD}.volumes.0.persistentVolumeClaim.claimName")),
    "jobsStorage": ("of it", ("PersistentVolumeClaim/upscale-jobs", "spec.resources.requests.storage")),
}


def walk(node, path):
    """The container that holds the path's last step, and that step."""
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in steps:
        node = node[step]
    return node, last


def render(folder):
    """The objects of a Kustomize folder by kind/name."""
    done = subprocess.run(["kubectl", "kustomize", FOLDER / folder], capture_output=True, text=True, check=True)
    objects = [document for document in yaml.safe_load_all(done.stdout) if document]
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in objects}


def template(document, condition):
    """The template of an object, which is there if the value `condition` is true, or always."""
    # Text that YAML would quote is for Helm to replace first.
    text = re.sub(r"'(\{\{.*?\}\})'", r"\1", yaml.safe_dump(document))
    return f"{{{{- if .Values.{condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def chart():
    """Texts of the chart's files by name."""
    objects, parts, defaults = render("base"), {}, ""
    for part, (folder, meaning) in PARTS.items():
        added = {name: document for name, document in render(folder).items() if name not in objects}
        parts |= dict.fromkeys(added, part)
        objects |= added
        defaults += f"{part}: false # {meaning}\n"
    for name, (meaning, *places) in VALUES.items():
        targets = [walk(objects[target], path) for target, path in places]
        (default,) = {str(holder[last]) for holder, last in targets}
        defaults += f"{name}: {yaml.safe_dump(targets[0][0][targets[0][1]]).splitlines()[0]} # {meaning}\n"
        for holder, last in targets:  # strings stay strings, be they all digits
            holder[last] = f"{{{{ .Values.{name}{' | quote' if isinstance(holder[last], str) else ''} }}}}"
    files = {f"templates/{name.lower().replace('/', '-')}.yaml": template(document, parts.get(name))
             for name, document in objects.items()}
    version = re.search(r"project\(upscaled VERSION ([\d.]+)", (FOLDER.parents[1] / "CMakeLists.txt").read_text())[1]
    head = "# Made by make_chart.py of the Kustomize folders; not to be edited.\n"
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
