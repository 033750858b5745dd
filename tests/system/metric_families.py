# SPDX-License-Identifier: MIT
"""The protobuf format of Prometheus, decoded: messages io.prometheus.client.MetricFamily, each behind its length."""

import struct
from collections import namedtuple

ACCEPT = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

COUNTER, GAUGE = 0, 1

Family = namedtuple("Family", "name help type samples")  # samples: {labels: value}, labels as a frozenset of pairs


def _varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """(number, value) of each: a whole number, a float, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
        elif tag & 7 == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "the message is cut off"
        yield tag >> 3, value


def _sample(metric, kind):
    labels, value = set(), None
    for number, content in fields(metric):
        if number == 1:
            pair = dict(fields(content))
            labels.add((pair[1].decode(), pair[2].decode()))
        else:
            assert value is None and number == {GAUGE: 2, COUNTER: 3}[kind]
            value = dict(fields(content)).get(1, 0.0)
    return frozenset(labels), value


def families(data):
    at = 0
    while at < len(data):
        size, at = _varint(data, at)
        content, at = list(fields(data[at:at + size])), at + size
        assert at <= len(data), "the stream is cut off"
        single = {number: value for number, value in content if number != 4}
        kind, found = single.get(3, COUNTER), {}
        for metric in (value for number, value in content if number == 4):
            labels, value = _sample(metric, kind)
            assert labels not in found, f"{single[1]}: {labels} is there twice"
            found[labels] = value
        yield Family(single[1].decode(), single[2].decode(), kind, found)
