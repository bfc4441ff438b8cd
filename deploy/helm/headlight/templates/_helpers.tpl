{{/* Names and labels, and the numbers that must fit each other. */}}

{{- define "headlight.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "headlight.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains (include "headlight.name" .) .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "headlight.name" .) | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "headlight.selectorLabels" -}}
app.kubernetes.io/name: {{ include "headlight.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headlight.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "headlight.labels" -}}
{{ include "headlight.selectorLabels" . }}
{{ include "headlight.commonLabels" . }}
{{- end -}}

{{/* The pod of `helm test` must not be taken for a replica. */}}
{{- define "headlight.testLabels" -}}
app.kubernetes.io/name: {{ include "headlight.name" . }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headlight.image" -}}
{{- $suffix := ternary "-cuda" "" .Values.gpu.enabled -}}
{{- printf "%s:%s" .Values.image.repository (default (print .Chart.AppVersion $suffix) .Values.image.tag) -}}
{{- end -}}

{{- define "headlight.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "headlight.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The secret with the API keys, or nothing. */}}
{{- define "headlight.keysSecret" -}}
{{- if and .Values.apiKeys.existingSecret .Values.apiKeys.values -}}
{{- fail "apiKeys.existingSecret and apiKeys.values are both set: keep one of them" -}}
{{- end -}}
{{- if .Values.apiKeys.values -}}
{{- printf "%s-api-keys" (include "headlight.fullname" .) -}}
{{- else -}}
{{- .Values.apiKeys.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* A value as the service reads it. YAML makes `off` false, and whole numbers floats (2e+06). */}}
{{- define "headlight.setting" -}}
{{- if kindIs "bool" . -}}
{{- ternary "on" "off" . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* Where the checkpoint lies in the container; nothing: where the image has it. */}}
{{- define "headlight.checkpointPath" -}}
{{- if eq .Values.checkpoint.source "image" -}}
{{- .Values.checkpoint.path -}}
{{- else -}}
{{- printf "/checkpoints/%s" (required (printf "checkpoint.name is empty: with checkpoint.source %q it names the folder, and so the model" .Values.checkpoint.source) .Values.checkpoint.name) -}}
{{- end -}}
{{- end -}}

{{/* A setting in seconds, of the list (root, name, the service's default). */}}
{{- define "headlight.seconds" -}}
{{- $given := get (index . 0).Values.settings (index . 1) -}}
{{- if or (kindIs "invalid" $given) (eq (toString $given) "") -}}
{{- index . 2 -}}
{{- else if gt (float64 $given) 86400.0 -}}
{{- fail (printf "settings.%s is %v seconds, must be at most 86400, a day" (index . 1) $given) -}}
{{- else -}}
{{- $given -}}
{{- end -}}
{{- end -}}

{{/* Seconds from SIGTERM, or from the start of preStop, until the last answer can be due. */}}
{{- define "headlight.longestEnd" -}}
{{- $drain := include "headlight.seconds" (list . "DRAIN_SECONDS" 5) | float64 -}}
{{- $timeout := include "headlight.seconds" (list . "REQUEST_TIMEOUT" 10) | float64 -}}
{{- addf .Values.lifecycle.preStopSeconds $drain $timeout | ceil | int -}}
{{- end -}}

{{- define "headlight.grace" -}}
{{- $longest := include "headlight.longestEnd" . | int -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- add $longest 10 -}}
{{- else if lt (int $given) (int (add $longest 1)) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, must be at least %d: preStopSeconds, DRAIN_SECONDS and REQUEST_TIMEOUT together, and one second; raise it, or leave it out" (int $given) (int (add $longest 1))) -}}
{{- else -}}
{{- int $given -}}
{{- end -}}
{{- end -}}

{{/* A quantity of processors as a number: "1500m" is 1.5. */}}
{{- define "headlight.cores" -}}
{{- $text := toString . -}}
{{- if hasSuffix "m" $text -}}
{{- divf (trimSuffix "m" $text | float64) 1000 -}}
{{- else -}}
{{- float64 $text -}}
{{- end -}}
{{- end -}}

{{/* How many forward passes a replica computes at once, as the service chooses it. */}}
{{- define "headlight.lanes" -}}
{{- $threads := dig "THREADS" 0 .Values.settings | default 0 | int -}}
{{- $limit := dig "limits" "cpu" "" .Values.resources -}}
{{- if .Values.gpu.enabled -}}
1
{{- else if gt $threads 0 -}}
{{- $threads -}}
{{- else if $limit -}}
{{- include "headlight.cores" $limit | float64 | ceil | int -}}
{{- else -}}
{{- fail "resources.limits.cpu is missing: a replica would start a thread for each core of its node; set it, or settings.THREADS" -}}
{{- end -}}
{{- end -}}

{{/* Selects the series of these replicas. */}}
{{- define "headlight.selector" -}}
{{- default (printf "namespace=%q,service=%q" .Release.Namespace (include "headlight.fullname" .)) .Values.autoscaling.keda.selector -}}
{{- end -}}

{{- define "headlight.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: {{ .Values.autoscaling.scaleUpWindowSeconds }}
scaleDown:
  stabilizationWindowSeconds: {{ .Values.autoscaling.scaleDownWindowSeconds }}
{{- end -}}

{{/* Something if rules of egress let a port be reached, of the list (rules, port, protocol). */}}
{{- define "headlight.reaches" -}}
{{- $port := int (index . 1) -}}
{{- $protocol := index . 2 -}}
{{- range index . 0 -}}
{{- if not .ports -}}yes{{- end -}}
{{- range .ports -}}
{{- if eq (default "TCP" .protocol) $protocol -}}
{{- if or (not .port) (kindIs "string" .port) (and (le (int .port) $port) (le $port (int (default .port .endPort)))) -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses a collector of traces that the network policy keeps replicas from. */}}
{{- define "headlight.checkTraces" -}}
{{- $given := dict -}}
{{- range .Values.extraEnv -}}
{{- $_ := set $given .name (ternary "?" (default "" .value | trim) (hasKey . "valueFrom")) -}}
{{- end -}}
{{- $name := "OTEL_EXPORTER_OTLP_ENDPOINT" -}}
{{- if get $given "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" -}}
{{- $name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" -}}
{{- end -}}
{{- $url := get $given $name -}}
{{- $off := or (eq (get $given "OTEL_SDK_DISABLED" | lower) "true") (eq (get $given "OTEL_TRACES_EXPORTER" | lower) "none") -}}
{{- $egress := .Values.networkPolicy.egress -}}
{{- if and .Values.networkPolicy.enabled $url (not $off) -}}
{{- $host := regexReplaceAll "^[a-z]+://([^/@]*@)?([^/]*).*" $url "${2}" -}}
{{- $port := default (ternary "443" "80" (hasPrefix "https:" $url)) (regexFind "[0-9]+$" (regexFind ":[0-9]+$" $host)) -}}
{{- $is_address := regexMatch "^([0-9.]+|\\[.*\\])(:[0-9]+)?$" $host -}}
{{- $advice := "allow it in networkPolicy.egress, or set networkPolicy.enabled to false" -}}
{{- if not $egress -}}
{{- fail (printf "extraEnv has %s, but networkPolicy lets replicas reach nothing, so no trace would arrive: %s" $name $advice) -}}
{{- else if and (ne $url "?") (not (include "headlight.reaches" (list $egress $port "TCP"))) -}}
{{- fail (printf "extraEnv has %s, but networkPolicy lets replicas reach no TCP port %s: %s" $name $port $advice) -}}
{{- else if and (ne $url "?") (not $is_address) (not (include "headlight.reaches" (list $egress 53 "UDP"))) -}}
{{- fail (printf "extraEnv has %s, but networkPolicy lets replicas reach no UDP port 53, so its name cannot be resolved: %s" $name $advice) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What must be right before anything is rendered. */}}
{{- define "headlight.check" -}}
{{- $_ := include "headlight.lanes" . -}}
{{- include "headlight.checkTraces" . -}}
{{- $image := .Values.image.repository -}}
{{- if or (not $image) (hasPrefix "registry.example.com/" $image) -}}
{{- fail (printf "image.repository is %q, which is no image: build that of the service, push it to your registry and name it, such as --set image.repository=registry.internal/headlight" $image) -}}
{{- end -}}
{{- $source := .Values.checkpoint.source -}}
{{- if and (eq $source "volume") (not .Values.checkpoint.volume) -}}
{{- fail "checkpoint.volume is empty: with checkpoint.source \"volume\" it must say which volume, such as {persistentVolumeClaim: {claimName: models}}" -}}
{{- end -}}
{{- if and (eq $source "init") (not .Values.checkpoint.init.image) -}}
{{- fail "checkpoint.init.image is empty: with checkpoint.source \"init\" it must name the image that copies the checkpoint" -}}
{{- end -}}
{{- if and (ne $source "image") .Values.checkpoint.path -}}
{{- fail (printf "checkpoint.path needs checkpoint.source \"image\": with %q the folder is /checkpoints/NAME" $source) -}}
{{- end -}}
{{- $scaling := .Values.autoscaling -}}
{{- if and (ne $scaling.kind "none") (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas is %d, more than autoscaling.maxReplicas, %d" (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- if and (eq $scaling.kind "hpa") (not $scaling.hpa.cpuPercent) (not $scaling.hpa.podMetric) -}}
{{- fail "autoscaling.kind is \"hpa\", but neither autoscaling.hpa.cpuPercent nor autoscaling.hpa.podMetric is set: there is nothing to scale on" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts is empty: name the hosts of the ingress, such as [sentiment.example.org]" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs is empty: name the gateway, such as [{name: public, namespace: gateway}]" -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "HEADLIGHT_" .name -}}
{{- fail (printf "extraEnv has %s: settings of the service stand under `settings`, without HEADLIGHT_" .name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.topologySpreadConstraints -}}
{{- if hasKey . "labelSelector" -}}
{{- fail "topologySpreadConstraints has a labelSelector: leave it out, the chart adds it" -}}
{{- end -}}
{{- end -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and $budget.enabled (eq (kindIs "invalid" $budget.minAvailable) (kindIs "invalid" $budget.maxUnavailable)) -}}
{{- fail "podDisruptionBudget needs exactly one of minAvailable and maxUnavailable: set the other to null" -}}
{{- end -}}
{{- $metrics := dig "METRICS" "open" .Values.settings | include "headlight.setting" -}}
{{- if or .Values.serviceMonitor.enabled .Values.prometheusRule.enabled (eq $scaling.kind "keda") -}}
{{- if eq $metrics "off" -}}
{{- fail "settings.METRICS is off: serviceMonitor.enabled, prometheusRule.enabled and autoscaling.kind \"keda\" need it" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.settings.ALLOWED_HOSTS -}}
{{- fail "settings.ALLOWED_HOSTS is set, but Prometheus asks each replica by its address and would get 421: leave it out and let the ingress or gateway check names, or serviceMonitor.enabled" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (eq $metrics "key") (not .Values.serviceMonitor.keySecret) -}}
{{- fail "settings.METRICS is key: serviceMonitor.keySecret must name the secret that holds a key, such as {name: scraping, key: key}" -}}
{{- end -}}
{{- end -}}
