{{- define "holdfast.name" -}}
{{- printf "%s-operator" (.Release.Name | trunc 40 | trimSuffix "-") -}}
{{- end -}}

{{- define "holdfast.labels" -}}
app.kubernetes.io/name: holdfast-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdfast.webhook" -}}
{{- and .Values.webhook.enabled .Values.watch.cluster -}}
{{- end -}}

{{- define "holdfast.nodes" -}}
{{- and .Values.watch.nodes .Values.watch.cluster -}}
{{- end -}}

{{- define "holdfast.namespaces" -}}
{{- if not .Values.watch.cluster -}}
{{- join "," (default (list .Release.Namespace) .Values.watch.namespaces) -}}
{{- end -}}
{{- end -}}

{{/* What the operator may do where Clusters are. Each line is used by running/applying.py or
     running/handlers.py; nothing deletes what it does not own. */}}
{{- define "holdfast.rules" -}}
- apiGroups: [holdfast.io]
  resources: [clusters, backups, backupschedules, restores]
  verbs: [list, watch]
- apiGroups: [holdfast.io]
  resources: [clusters]  # a Restore makes one
  verbs: [create, patch]
- apiGroups: [holdfast.io]
  resources: [backups]  # a BackupSchedule makes and removes them
  verbs: [create, delete]
- apiGroups: [holdfast.io]
  resources: [clusters/status, backups/status, backupschedules/status, restores/status]
  verbs: [patch]
- apiGroups: [holdfast.io]
  resources: [clusters/finalizers, backups/finalizers, restores/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch, create]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [list, watch, create, patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch, create, patch, delete]
{{- end -}}
