/* SPDX-License-Identifier: MIT */

/* Content negotiation: Accept and Accept-Encoding. */

#include "web/api/accept.h"

#include "base/util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PROTOBUF "application/vnd.google.protobuf"
#define FAMILY "io.prometheus.client.MetricFamily"

static const struct media offers[] = {
	{ .type = "text/plain", .parameters = { { "version", "0.0.4" } } },
	{ .type = "application/openmetrics-text", .parameters = { { "version", "1.0.0" } } },
	{ .type = PROTOBUF,
	  .parameters = { { "proto", FAMILY }, { "encoding", "delimited" } },
	  .needs_parameters = true },
};

static void test_media(void **state)
{
	enum { PLAIN, OPEN, PROTO };
	static const struct {
		const char *header;
		size_t chosen;
	} cases[] = {
		{ NULL, PLAIN },
		{ "", PLAIN },
		{ "*/*", PLAIN },
		{ "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8", PLAIN },
		/* Prometheus 2, 3, and with protobuf */
		{ "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
		  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		  OPEN },
		{ "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
		  "application/openmetrics-text;version=0.0.1;q=0.4,"
		  "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
		  "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
		  OPEN },
		{ "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,"
		  "text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
		  PROTO },
		{ PROTOBUF ";proto=" FAMILY
			   ";encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1",
		  PROTO },
		{ PROTOBUF ";proto=" FAMILY ";encoding=delimited;q=0.2, text/plain;q=0.3", PLAIN },
		{ PROTOBUF "; encoding=\"delimited\"; proto=" FAMILY "; q=0.4, text/plain;q=0.3", PROTO },
		/* another encoding of it, another message, or which one is not said */
		{ PROTOBUF ";proto=" FAMILY ";encoding=text, text/plain;q=0.1", PLAIN },
		{ PROTOBUF ";proto=io.prometheus.client.Metric;encoding=delimited, text/plain;q=0.1", PLAIN },
		{ PROTOBUF ";proto=" FAMILY, PLAIN },
		{ "application/*;version=2.0.0, text/plain;q=0.1", PLAIN },
		{ PROTOBUF, PLAIN },
		{ "text/plain;version=0.0.4;q=1,*/*;q=0.1", PLAIN },
		/* versions */
		{ "application/openmetrics-text", OPEN },
		{ "application/openmetrics-text; version=1.0.0; charset=utf-8", OPEN },
		{ "application/openmetrics-text;version=\"1.0.0\"", OPEN },
		{ "application/openmetrics-text;version=0.0.1", PLAIN },
		{ "application/openmetrics-text;version=2.0.0, */*;q=0.1", PLAIN },
		{ "text/plain;version=1.0.0, application/openmetrics-text;q=0.1", OPEN },
		/* q */
		{ "application/openmetrics-text;q=0.4, text/plain;q=0.5", PLAIN },
		{ "application/openmetrics-text;q=0.501, text/plain;q=0.5", OPEN },
		{ "application/openmetrics-text;q=0, */*", PLAIN },
		{ "text/plain;q=0, */*;q=0.1", OPEN },
		{ "text/plain;q=0, application/openmetrics-text;q=0", PLAIN },
		{ "application/openmetrics-text, text/plain", PLAIN },
		{ "application/openmetrics-text;version=1.0.0, text/plain", OPEN },
		{ "application/openmetrics-text;q=0.9, text/*;q=1", PLAIN },
		{ "application/*, text/plain;q=0.9", OPEN },
		{ "text/plain;q=0.2, */*;q=0.9", OPEN },
		/* how it is written */
		{ "APPLICATION/OpenMetrics-Text ; Version=1.0.0 ; Q=1 , text/plain;q=0.9", OPEN },
		{ " ,, \t,application/openmetrics-text,,", OPEN },
		{ "text/html;x=\"a,application/openmetrics-text;q=1,\";q=1", PLAIN },
		{ "text/html;x=\"\\\",\", application/openmetrics-text", OPEN },
		/* what can't be understood is not there */
		{ "application/openmetrics-text;q=2", PLAIN },
		{ "application/openmetrics-text;q=1.001", PLAIN },
		{ "application/openmetrics-text;q=0.1234", PLAIN },
		{ "application/openmetrics-text;q=-1", PLAIN },
		{ "application/openmetrics-text;q=", PLAIN },
		{ "application/openmetrics-text;q=\"0.5\"", OPEN },
		{ "application/openmetrics-text;q=1.", OPEN },
		{ "application/openmetrics-text;;q;=;x=;q=0.1", OPEN },
		{ "application/openmetrics-textx", PLAIN },
		{ "application", PLAIN },
		{ "*", PLAIN },
		{ "application/", PLAIN },
		{ ";;;,;q=1,\"", PLAIN },
		{ "application/openmetrics-text;version=\"1.0.0", PLAIN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (accept_media(cases[i].header, offers, ARRAY_SIZE(offers)) != cases[i].chosen)
			fail_msg("%s: not %s", cases[i].header, offers[cases[i].chosen].type);
}

/* An offer without versions is not what a range with a version asks for, and it ends nothing. */
static void test_offers_without_versions(void **state)
{
	static const struct media past[] = { { .type = "application/json" },
					     { .type = "application/openmetrics-text",
					       .parameters = { { "version", "1.0.0" } } } };
	enum { JSON, OPEN };
	static const struct {
		const char *header;
		size_t chosen;
	} cases[] = {
		{ NULL, JSON },
		{ "application/openmetrics-text;version=1.0.0", OPEN },
		{ "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
		  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		  OPEN },
		{ "application/openmetrics-text;version=2.0.0", JSON },
		{ "application/json;version=1", JSON },
		{ "application/json;version=1, application/openmetrics-text;q=0.1", OPEN },
		{ "application/json, application/openmetrics-text;version=1.0.0;q=0.5", JSON },
		{ "application/*;version=1.0.0", OPEN },
		{ "*/*;version=1", JSON },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (accept_media(cases[i].header, past, ARRAY_SIZE(past)) != cases[i].chosen)
			fail_msg("%s: not %s", cases[i].header, past[cases[i].chosen].type);
}

static void test_gzip(void **state)
{
	static const struct {
		const char *header;
		bool gzip;
	} cases[] = {
		{ NULL, false },
		{ "", false },
		{ "gzip", true },
		{ "x-gzip", true },
		{ "GZIP;q=1.0", true },
		{ "gzip, deflate, br, zstd", true },
		{ "deflate, br", false },
		{ "identity", false },
		{ "gzip;q=0", false },
		{ "gzip;q=0.000, *", false },
		{ "gzip;q=0.001", true },
		{ "identity;q=0, gzip", true },
		{ "identity;q=0", false },
		{ "identity;q=0.5, gzip;q=1", true },
		{ "identity, gzip;q=0.5", false },
		{ "identity;q=1, gzip;q=1", true },
		{ "*", true },
		{ "*;q=0", false },
		{ "gzip;q=0.5, *;q=1", false },
		{ "gzip;q=0.5, *;q=0", true },
		{ "gzip;q=nonsense", false },
		{ "gzipped", false },
		{ "deflate;x=\"gzip", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (accept_gzip(cases[i].header) != cases[i].gzip)
			fail_msg("%s", cases[i].header);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_media),
		cmocka_unit_test(test_offers_without_versions),
		cmocka_unit_test(test_gzip),
	};

	return cmocka_run_group_tests_name("accept", tests, NULL, NULL);
}
