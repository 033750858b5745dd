// SPDX-License-Identifier: MIT
//
// All rules as a manifest for the Prometheus operator:
//
//   jsonnet conf/mixin/prometheus-rule.jsonnet >packaging/kubernetes/prometheus-operator/prometheus-rule.json

local mixin = import 'mixin.libsonnet';

{
  apiVersion: 'monitoring.coreos.com/v1',
  kind: 'PrometheusRule',
  metadata: {
    name: 'perfmond',
    labels: { 'app.kubernetes.io/name': 'perfmond', 'app.kubernetes.io/component': 'monitoring' },
  },
  spec: { groups: mixin.prometheusAlerts.groups + mixin.prometheusRules.groups },
}
