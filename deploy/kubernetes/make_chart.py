#!/usr/bin/python3
"""Makes the Helm chart in chart/ of the Kustomize base and PARTS: make_chart.py [--check]. Needs kubectl and PyYAML.

VALUES and chart_parts.yaml are all that a chart's user may set; everything else is as in the folders, except that names follow
the release, labels are Kubernetes' own, and a part's objects are there only if its condition is true. --check only says whether
chart/ is current. The chart's own files (helpers, notes, routes, schema's additions) are in chart_parts/."""
import json
import pathlib
import re
import subprocess
import sys

import yaml

FOLDER = pathlib.Path(__file__).resolve().parent
CHART = FOLDER / "chart"
OWN = FOLDER / "chart_parts"  # files that no folder has

SERVER = "Deployment/upscaled"
WORKERS = "Deployment/upscale-worker"
POD = "spec.template.spec"
HPA, SCALED = "HorizontalPodAutoscaler/upscaled", "ScaledObject/upscaled"
MONITOR = "ServiceMonitor/upscaled"

# name in values.yaml: the folder that has the part, and what it is.
PARTS = {
    "cpuAutoscaler": ("overlays/cpu", "whether Kubernetes sets the number of replicas, by CPU"),
    "kedaAutoscaler": ("overlays/keda", "or KEDA does, by CPU and backlog, which is better; brings serviceMonitor"),
    "serviceMonitor": ("overlays/monitoring", "whether Prometheus' operator scrapes and alerts, with metricsSecret"),
    "ingress": ("overlays/ingress", "whether ingress-nginx leads to it, by host"),
    "worker": ("worker", "whether there are workers on queued jobs"),
}

# The conditions of parts that others bring.
CONDITIONS = {"serviceMonitor": "or .Values.serviceMonitor .Values.kedaAutoscaler"}

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
    "metricsSecret": ("has key, with the role admin, by which Prometheus scrapes",
                      (MONITOR, "spec.endpoints.0.authorization.credentials.name")),
    "jobsStorage": ("of it", ("PersistentVolumeClaim/upscale-jobs", "spec.resources.requests.storage")),
}


NAME = 'include "upscaled.name" .'
# Objects' own names, and names that lead to them, by what follows the release's name.
SUFFIXES = {"upscaled": "", "upscaled-replicas": "-replicas", "upscaled-grpc": "-grpc", "upscaled-http": "-http",
            "upscaled-from-ingress": "-from-ingress", "upscale-worker": "-worker"}
# Namespaces that policies let in, by the base's name.
NAMESPACES = {"monitoring": "HELM<.Values.monitoringNamespace | quote>", "ingress-nginx": "HELM<.Values.ingressNamespace | quote>"}
COMPONENTS = {"upscaled": "server", "upscale-worker": "worker"}

# Begins the name of a block that leaves out what follows, up to the block "end", if the user gives this setting.
UNLESS = "unless-"
# Lines that stand for HELMBLOCK_NAME, at its indentation; {n} is that, for nindent.
BLOCKS = {
    "labels": ["{{- include \"upscaled.labels\" . | nindent {n} }}"],
    "replicas": ["{{- if not (or .Values.cpuAutoscaler .Values.kedaAutoscaler) }}", "replicas: {{ .Values.replicas }}", "{{- end }}"],
    "pod": ["{{- include \"upscaled.pod\" . | nindent {n} }}"],
    "server_pod": ["{{- include \"upscaled.pod\" . | nindent {n} }}", "{{- include \"upscaled.tolerations\" . | nindent {n} }}",
                   "{{- if .Values.models.files }}", "initContainers:",
                   "- name: models", "  image: {{ .Values.models.fetchImage | quote }}",
                   "  command: [sh, -c, {{ include \"upscaled.fetchModels\" . | toJson }}]",
                   "  securityContext:", "    allowPrivilegeEscalation: false", "    capabilities: { drop: [ALL] }",
                   "    readOnlyRootFilesystem: true",
                   "  volumeMounts:", "  - { name: models, mountPath: /models }", "{{- end }}"],
    "pod_labels": ["{{- with .Values.podLabels }}", "{{- toYaml . | nindent {n} }}", "{{- end }}"],
    "pod_metadata": ["{{- with .Values.podAnnotations }}", "annotations:", "  {{- toYaml . | nindent {n2} }}", "{{- end }}"],
    "env": ["{{- if and .Values.gpus (not (hasKey .Values.settings \"device\")) }}", "- name: UPSCALED_DEVICE", "  value: cuda", "{{- end }}",
            "{{- range $name, $value := .Values.settings }}",
            "- name: {{ printf \"UPSCALED_%s\" ($name | upper | replace \"-\" \"_\") }}",
            "  value: {{ include \"upscaled.setting\" $value | quote }}", "{{- end }}",
            "{{- with .Values.extraEnv }}", "{{- toYaml . | nindent {n} }}", "{{- end }}"],
    "tolerations": ["{{- with .Values.tolerations }}", "tolerations:", "  {{- toYaml . | nindent {n2} }}", "{{- end }}"],
    "end": ["{{- end }}"],
    "egress": ["{{- include \"upscaled.egress\" . | nindent {n} }}"],
    "limits": ["{{- with .Values.gpus }}", "nvidia.com/gpu: {{ . | quote }}", "{{- end }}"],
    "mounts": ["{{- with .Values.extraVolumeMounts }}", "{{- toYaml . | nindent {n} }}", "{{- end }}"],
    "models": ["- name: models", "  {{- if .Values.models.volume }}", "  {{- toYaml .Values.models.volume | nindent {n2} }}",
               "  {{- else }}", "  emptyDir: {}", "  {{- end }}",
               "{{- with .Values.extraVolumes }}", "{{- toYaml . | nindent {n} }}", "{{- end }}"],
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


def block(name):
    return {f"HELMBLOCK_{name}": ""}


def name_by_release(node):
    """Names and labels of `node`, and in it, follow the release."""
    if isinstance(node, list):
        for entry in node:
            name_by_release(entry)
    if not isinstance(node, dict):
        return
    if node.get("name") in SUFFIXES and "image" not in node:  # a container's name is no object's
        node["name"] = f"HELM<{NAME}>{SUFFIXES[node['name']]}"
    if (app := node.pop("app", None)) is not None:
        node |= {"app.kubernetes.io/name": "upscaled", "app.kubernetes.io/instance": "HELM<.Release.Name | quote>",
                 "app.kubernetes.io/component": COMPONENTS[app]}
    for value in node.values():
        name_by_release(value)


def add_blocks(name, document):
    """Puts in what folders do not have."""
    document["metadata"].setdefault("labels", {}).update(block("labels"))
    if document["kind"] == "ServiceMonitor":
        document["spec"]["jobLabel"] = "app.kubernetes.io/name"
    if document["kind"] == "ScaledObject":  # the replicas of this release, and no others
        own = f'{{job="upscaled", namespace="HELM<.Release.Namespace>", service="HELM<{NAME}>-replicas"'
        for trigger in document["spec"]["triggers"]:
            if "query" in trigger["metadata"]:
                trigger["metadata"]["query"] = trigger["metadata"]["query"].replace('{job="upscaled"', own)
    if document["kind"] == "Ingress":
        document["spec"]["ingressClassName"] = "HELM<.Values.ingressClass | quote>"
        document["spec"]["tls"] = [{"hosts": ["HELM<.Values.host | quote>"], "secretName": "HELM<.Values.tlsSecret | quote>"}]
        document["spec"]["rules"][0]["host"] = "HELM<.Values.host | quote>"
    if document["kind"] == "NetworkPolicy":
        for rule in document["spec"].get("ingress", []):
            for source in rule["from"]:
                if "namespaceSelector" in source:
                    labels = source["namespaceSelector"]["matchLabels"]
                    labels["kubernetes.io/metadata.name"] = NAMESPACES[labels["kubernetes.io/metadata.name"]]
        if name == "NetworkPolicy/upscaled":
            document["spec"].update(block("egress"))
    if document["kind"] != "Deployment":
        return
    template = document["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    container["imagePullPolicy"] = "HELM<.Values.imagePullPolicy>"
    if name != SERVER:
        pod.update(block("pod") | block("tolerations"))
        server = next(variable for variable in container["env"] if variable["name"] == "UPSCALE_SERVER")
        server["value"] = server["value"].replace("upscaled", f"HELM<{NAME}>")
        return
    del document["spec"]["replicas"]
    document["spec"].update(block("replicas"))
    rolling = document["spec"]["strategy"]["rollingUpdate"]  # there may be no GPU to spare
    rolling.update(maxSurge="HELM<ternary 0 1 (ne (int .Values.gpus) 0)>", maxUnavailable="HELM<ternary 1 0 (ne (int .Values.gpus) 0)>")
    template["metadata"].update(block("pod_metadata"))
    template["metadata"]["labels"].update(block("pod_labels"))
    pod.update(block("server_pod"))
    settings = {variable["name"].removeprefix("UPSCALED_").lower().replace("_", "-"): variable for variable in container["env"]}
    container["env"] = [entry for setting, variable in settings.items()
                        for entry in (f"HELMBLOCK_{UNLESS}{setting}", variable, "HELMBLOCK_end")] + ["HELMBLOCK_env"]
    container["resources"]["limits"].update(block("limits"))
    container["volumeMounts"].append("HELMBLOCK_mounts")
    pod["volumes"] = ["HELMBLOCK_models" if volume["name"] == "models" else volume for volume in pod["volumes"]]


def expand(match):
    indent, name = match[1], match[2]
    lines = BLOCKS.get(name) or [f'{{{{- if not (hasKey .Values.settings "{name.removeprefix(UNLESS)}") }}}}']
    return "\n".join(indent + line.replace("{n}", str(len(indent))).replace("{n2}", str(len(indent) + 2)) for line in lines)


def template(document, condition):
    """The template of an object, which is there if `condition` is true, or always."""
    text = yaml.safe_dump(document, width=10000)
    text = text.replace("{{", '{{ "{{" }}')  # of Prometheus
    text = re.sub(r"^( *)(?:- )?HELMBLOCK_([\w-]+)(?:: '')?$", expand, text, flags=re.M)
    text = re.sub(r"HELM<(.*?)>", r"{{ \1 }}", text)
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def schema(defaults):
    """JSON Schema of the values: no others, each of its default's type, with OWN's own for what has a form."""
    types = {bool: {"type": "boolean"}, int: {"type": "integer", "minimum": 0}, str: {"type": "string"}, list: {"type": "array"}, dict: {"type": "object"}}
    known = {name: types[type(value)] for name, value in defaults.items()}
    for name, rule in json.loads((OWN / "schema.json").read_text()).items():
        known[name] = rule
    return {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False,
            "properties": {"global": {"type": "object"}, **known}}


def chart():
    """Texts of the chart's files by name."""
    objects, parts, defaults = render("base"), {}, ""
    for part, (folder, meaning) in PARTS.items():
        added = {name: document for name, document in render(folder).items() if name not in objects}
        condition = CONDITIONS.get(part, f".Values.{part}")
        parts |= dict.fromkeys(added, condition)
        objects |= added
        defaults += f"{part}: false # {meaning}\n"
    for name, (meaning, *places) in VALUES.items():
        targets = [walk(objects[target], path) for target, path in places]
        (default,) = {str(holder[last]) for holder, last in targets}
        defaults += f"{name}: {yaml.safe_dump(targets[0][0][targets[0][1]]).splitlines()[0]} # {meaning}\n"
        for holder, last in targets:  # strings stay strings, be they all digits
            holder[last] = f"HELM<.Values.{name}{' | quote' if isinstance(holder[last], str) else ''}>"
    defaults += (OWN / "values.yaml").read_text()
    files = {}
    for name, document in objects.items():
        add_blocks(name, document)
        name_by_release(document)
        files[f"templates/{name.lower().replace('/', '-')}.yaml"] = template(document, parts.get(name))
    for path in sorted((OWN / "templates").iterdir()):
        files[f"templates/{path.name}"] = path.read_text()
    version = re.search(r"project\(upscaled VERSION ([\d.]+)", (FOLDER.parents[1] / "CMakeLists.txt").read_text())[1]
    head = "# Made by make_chart.py of the Kustomize folders; not to be edited.\n"
    about = {"apiVersion": "v2", "name": "upscaled", "description": "A network image-upscaling service", "type": "application",
             "version": version, "appVersion": version}
    files["Chart.yaml"] = head + yaml.safe_dump(about, sort_keys=False)
    files["values.yaml"] = head + defaults
    files["values.schema.json"] = json.dumps(schema(yaml.safe_load(defaults)), indent=2) + "\n"
    return files


def main():
    wanted = chart()
    there = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
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
