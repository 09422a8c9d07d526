{{- define "upscaled.name" -}}
{{- if .Values.nameOverride -}}
{{- .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains "upscaled" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-upscaled" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "upscaled.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{- define "upscaled.pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "upscaled.tolerations" -}}
{{- if or .Values.tolerations .Values.gpus }}
tolerations:
  {{- if .Values.gpus }}
  - { key: nvidia.com/gpu, operator: Exists, effect: NoSchedule }
  {{- end }}
  {{- with .Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* As the environment of the server has it: whole numbers without an exponent, switches as on and off. */ -}}
{{- define "upscaled.setting" -}}
{{- if kindIs "bool" . -}}
{{- ternary "on" "off" . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end }}

{{- /* Models with their sums; one that is there already is not fetched again. */ -}}
{{- define "upscaled.fetchModels" -}}
set -eu
{{- range .Values.models.files }}
f={{ printf "/models/%s" .path | squote }}
if ! echo {{ printf "%s  /models/%s" .sha256 .path | squote }} | sha256sum -c -s 2>/dev/null; then
  mkdir -p "$(dirname "$f")"
  curl -fsSL --retry 5 -o "$f.part" {{ .url | squote }}
  echo {{ printf "%s  /models/%s.part" .sha256 .path | squote }} | sha256sum -c
  mv "$f.part" "$f"
fi
{{- end }}
{{- end }}

{{- /* Ways out, which the policy closes otherwise: to all hosts if a setting or a model names one, and to those of `egress`. */ -}}
{{- define "upscaled.egress" -}}
{{- $out := not (empty .Values.models.files) -}}
{{- range list "fetch-allow" "fetch-allow-private" "job-queue" "trace-endpoint" -}}
{{- $out = or $out (hasKey $.Values.settings .) -}}
{{- end -}}
{{- if or $out .Values.egress }}
egress:
  {{- if $out }}
  - {}
  {{- end }}
  {{- with .Values.egress }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
