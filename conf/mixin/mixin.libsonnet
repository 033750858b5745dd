// SPDX-License-Identifier: MIT
//
// A monitoring mixin: the rules, the alerts and the dashboard that stand beside this folder, for those who deploy with
// jsonnet. It has nothing of its own: what is installed is what it renders, with the values of _config as they are.
//
//   (import 'mixin.libsonnet') + { _config+:: { selector: 'job="perf"', runbookURL: 'https://wiki.example/perfmond' } }

{
  _config:: {
    // The jobs whose absence is an alert. All other rules are about series that only perfmond has.
    selector: 'job=~"perfmond.*"',
    // Where doc/runbooks.md is read. An entry is at this, #, and the name of the alert in lower case.
    runbookURL: 'file:///usr/share/doc/perfmond/runbooks.md',
    // Names of pods, joined from kube-state-metrics.
    kubernetes: true,
  },

  local config = self._config,
  // Expressions in one line each: implementations of jsonnet fold indented lines in different ways.
  local words(text) = [word for word in std.split(std.strReplace(text, '\n', ' '), ' ') if word != ''],
  local groups(text) = [
    group { rules: [rule { expr: std.join(' ', words(rule.expr)) } for rule in group.rules] }
    for group in std.parseYaml(text).groups
  ],

  local adapted(rule) = rule {
    expr: std.strReplace(rule.expr, 'job=~"perfmond.*"', config.selector),
    annotations+: { runbook_url: config.runbookURL + '#' + std.asciiLower(rule.alert) },
  },

  prometheusAlerts+:: {
    groups+: [
      group { rules: std.map(adapted, group.rules) }
      for group in groups(importstr '../prometheus/alerts.rules.yml')
    ],
  },

  prometheusRules+:: {
    groups+: groups(importstr '../prometheus/recording.rules.yml') +
             if config.kubernetes then groups(importstr '../prometheus/kubernetes.rules.yml') else [],
  },

  grafanaDashboards+:: {
    'perfmond.json': import '../grafana/perfmond.json',
  },
}
