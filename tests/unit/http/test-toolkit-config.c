/* SPDX-License-Identifier: MIT */

/* The web configuration of exporter-toolkit: what is taken from it, and what is refused, with its line. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "web/http/toolkit-config.h"

#include "base/util/buf.h"

#include <errno.h>
#include <string.h>

#define HASH "$2b$04$abcdefghijklmnopqrstuuCiRMDOSPunoGZ1DCFvc2WqLWXwAsJFG"
#define PAIR "tls_server_config:\n  cert_file: a\n  key_file: b\n"
#define CLIENTS PAIR "  client_ca_file: c\n  client_auth_type: RequireAndVerifyClientCert\n"
#define DEFAULT_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-MAC-ALL:+AEAD:-RSA"

static struct toolkit_config *parsed(const char *text)
{
	struct toolkit_config *config = NULL;
	struct reason why = {};
	int r = toolkit_config_parse(&config, "/etc/fleet/web.yml", text, &why);

	if (r == -EOPNOTSUPP) {
		assert_non_null(strstr(why.text, "without libyaml"));
		skip();
	}
	if (r < 0)
		fail_msg("%s: %s", text, why.text);
	return config;
}

static void test_empty(_unused_ void **state)
{
	static const char *const texts[] = {
		"",   "\n", "# nothing\n",	    "---\n",
		"{}", "~",  "tls_server_config:\n", "basic_auth_users: {}\nhttp_server_config: { headers: }\n"
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_(toolkit_config_freep) struct toolkit_config *config = parsed(texts[i]);

		assert_false(web_file_is_given(&config->tls.certificate));
		assert_null(config->users);
	}
}

static void test_everything(_unused_ void **state)
{
	_cleanup_(toolkit_config_freep) struct toolkit_config *config =
		parsed("tls_server_config:\n"
		       "  cert_file: web/cert.pem\n"
		       "  key_file: /keys/key.pem\n"
		       "  client_ca: |\n    -----BEGIN\n    x\n"
		       "  client_auth_type: RequireAndVerifyClientCert\n"
		       "  client_allowed_sans: [ 'a.b', \"*.c\", 1.2.3.4 ]\n"
		       "  min_version: TLS12\n"
		       "  max_version: TLS13\n"
		       "  cipher_suites:\n    - TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\n"
		       "  curve_preferences: [ X25519, CurveP521 ]\n"
		       "  prefer_server_cipher_suites: true\n"
		       "http_server_config:\n"
		       "  http2: yes\n"
		       "  headers:\n"
		       "    Strict-Transport-Security: max-age=1\n"
		       "    X-Frame-Options: deny\n"
		       "basic_auth_users:\n"
		       "  ada: " HASH "\n  'bob b': " HASH "\n");
	const struct tls_settings *tls = &config->tls;

	assert_string_equal(tls->certificate.name, "/etc/fleet/web/cert.pem");
	assert_string_equal(tls->certificate.key, "cert_file");
	assert_string_equal(tls->certificate.file, "/etc/fleet/web.yml");
	assert_int_equal(tls->certificate.line, 2);
	assert_string_equal(tls->key.name, "/keys/key.pem");
	assert_null(tls->client_ca.name);
	assert_string_equal(tls->client_ca.text, "-----BEGIN\nx\n");
	assert_true(tls->client_required && tls->names_are_exact);
	assert_int_equal(tls->nr_client_names, 3);
	assert_string_equal(tls->client_names[1], "*.c");
	assert_string_equal(tls->client_names[2], "1.2.3.4");
	assert_string_equal(tls->priorities, DEFAULT_VERSIONS ":-CIPHER-ALL:-KX-ALL:+AES-256-GCM:+ECDHE-RSA"
							      ":-GROUP-ALL:+GROUP-X25519:+GROUP-SECP521R1"
							      ":%SERVER_PRECEDENCE");
	assert_true(config->wants_http2);
	assert_string_equal(config->headers[WEB_HEADER_STRICT_TRANSPORT], "max-age=1");
	assert_string_equal(config->headers[WEB_HEADER_FRAME_OPTIONS], "deny");
	assert_null(config->headers[WEB_HEADER_SECURITY_POLICY]);
	assert_int_equal(config->users->nr, 2);
	assert_string_equal(users_find(config->users, "bob b")->hash, HASH);
}

static void test_priorities(_unused_ void **state)
{
	static const struct {
		const char *more, *priorities;
	} cases[] = {
		{ "", DEFAULT_VERSIONS ":%SERVER_PRECEDENCE" },
		{ "  min_version: TLS13\n", "NORMAL:-VERS-ALL:+VERS-TLS1.3:-MAC-ALL:+AEAD:-RSA:%SERVER_PRECEDENCE" },
		{ "  max_version: TLS12\n", "NORMAL:-VERS-ALL:+VERS-TLS1.2:-MAC-ALL:+AEAD:-RSA:%SERVER_PRECEDENCE" },
		{ "  prefer_server_cipher_suites: false\n", DEFAULT_VERSIONS },
		{ "  cipher_suites:\n  curve_preferences:\n  min_version:\n", DEFAULT_VERSIONS ":%SERVER_PRECEDENCE" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *text = NULL;
		_cleanup_(toolkit_config_freep) struct toolkit_config *config = NULL;

		assert_true(asprintf(&text, PAIR "%s", cases[i].more) > 0);
		config = parsed(text);
		assert_string_equal(config->tls.priorities, cases[i].priorities);
		assert_false(config->tls.client_required);
	}
}

static const struct {
	const char *text, *says;
} wrong[] = {
	{ "a: b", "1: unknown key 'a'" },
	{ "- a", "1: keys and values are expected here" },
	{ "a", "1: keys and values are expected here" },
	{ "\ttls_server_config:", "1: the file is not YAML: found character that cannot start any token" },
	{ "tls_server_config: {", "2: the file is not YAML: " },
	{ "tls_server_config: *x\n", "1: the file is not YAML: found undefined alias" },
	{ "tls_server_config:\n  cert_file: a\n key_file: b\n", "3: the file is not YAML: " },
	{ "basic_auth_users:\n---\nx: y\n", "3: there is a second document" },
	{ "\xff\xfe", NULL },
	{ "basic_auth_users: { a: \xc3( }", NULL },
	{ "tls_server_config: []", "1: keys and values are expected here" },
	{ "tls_server_config:\n  cert_file: []\n", "2: a plain value is expected here, not a list" },
	{ "tls_server_config:\n  cert_file: { a: b }\n", "2: a plain value is expected here, not a mapping" },
	{ "tls_server_config:\n  [ a ]: b\n", "2: a plain value is expected here, not a list" },
	{ "tls_server_config:\n  cert_file: !!binary aGk=\n", "2: a tag (!" },
	{ "tls_server_config:\n  cert_file: \"a\\0b\"\n", "2: the value contains a NUL byte" },
	{ "tls_server_config:\n  cert_file: a\n  cert_file: b\n", "3: 'cert_file' is given twice" },
	{ "tls_server_config:\n  cert_file: a\n  cert: b\n", "3: there are both cert_file and cert; one is enough" },
	{ "tls_server_config:\n  certfile: a\n", "2: unknown key 'certfile'" },
	{ "tls_server_config:\n  <<: { cert_file: a }\n", "2: unknown key '<<'" },
	{ "tls_server_config:\n  cert_file: a\n", "2: there is no key_file" },
	{ "tls_server_config:\n  key_file: a\n", "2: there is no cert_file" },
	{ "tls_server_config:\n  client_ca_file: c\n  client_auth_type: VerifyClientCertIfGiven\n",
	  "2: there is no cert_file" },
	{ PAIR "  client_ca_file: c\n", "2: there is a client_ca_file, but no client_auth_type that verifies" },
	{ PAIR "  client_ca_file: c\n  client_auth_type: NoClientCert\n", "2: there is a client_ca_file, but no" },
	{ PAIR "  client_auth_type: RequireAndVerifyClientCert\n", "4: RequireAndVerifyClientCert needs client_ca" },
	{ PAIR "  client_ca_file: c\n  client_auth_type: RequestClientCert\n", "5: RequestClientCert lets in clients" },
	{ PAIR "  client_auth_type: RequireAnyClientCert\n", "4: RequireAnyClientCert lets in clients" },
	{ PAIR "  client_auth_type: RequireClientCert\n", "4: RequireClientCert lets in clients" },
	{ PAIR "  client_auth_type: verify\n", "4: 'verify' is no client_auth_type" },
	{ PAIR "  client_allowed_sans: [ a ]\n", "4: client_allowed_sans needs client_auth_type" },
	{ PAIR "  client_ca_file: c\n  client_auth_type: VerifyClientCertIfGiven\n  client_allowed_sans: [ a ]\n",
	  "6: client_allowed_sans needs client_auth_type" },
	{ CLIENTS "  client_allowed_sans: []\n", "6: client_allowed_sans is empty" },
	{ CLIENTS "  client_allowed_sans: a\n", "6: a list is expected here" },
	{ CLIENTS "  client_allowed_sans:\n    - a\n    - ''\n", "8: a name is empty" },
	{ CLIENTS "  client_allowed_sans:\n    - a\n    - [ b ]\n", "8: a plain value is expected here, not a list" },
	{ PAIR "  min_version: TLS11\n", "4: TLS11 is too old" },
	{ PAIR "  max_version: TLS10\n", "4: TLS10 is too old" },
	{ PAIR "  min_version: TLS1.2\n", "4: 'TLS1.2' is no version" },
	{ PAIR "  min_version: TLS13\n  max_version: TLS12\n", "2: max_version is below min_version" },
	{ PAIR "  cipher_suites: [ TLS_RSA_WITH_AES_128_GCM_SHA256 ]\n",
	  "4: 'TLS_RSA_WITH_AES_128_GCM_SHA256' is not spoken here" },
	{ PAIR "  cipher_suites:\n    - TLS_AES_128_GCM_SHA256\n", "5: TLS_AES_128_GCM_SHA256 is of TLS 1.3" },
	{ PAIR "  cipher_suites:\n    - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n"
	       "    - TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\n",
	  "2: these suites cannot be told apart here" },
	{ PAIR "  curve_preferences: [ P256 ]\n", "4: 'P256' is no curve" },
	{ PAIR "  prefer_server_cipher_suites: maybe\n", "4: 'maybe' is neither true nor false" },
	{ "http_server_config:\n  http2: 2\n", "2: '2' is neither true nor false" },
	{ "http_server_config:\n  http3: true\n", "2: unknown key 'http3'" },
	{ "http_server_config:\n  headers:\n    Server: me\n", "3: unknown key 'Server'" },
	{ "http_server_config:\n  headers:\n    X-Frame-Options: ALLOW\n", "3: X-Frame-Options is either deny or" },
	{ "http_server_config:\n  headers:\n    X-Frame-Options: sameorigin\n",
	  "3: X-Frame-Options: sameorigin has no" },
	{ "http_server_config:\n  headers:\n    X-Content-Type-Options: x\n", "3: X-Content-Type-Options can only be" },
	{ "http_server_config:\n  headers:\n    X-XSS-Protection: \"a\\nb\"\n", "3: X-XSS-Protection: only ASCII" },
	{ "basic_auth_users:\n  ada: secret\n", "2: the hash is not a bcrypt hash" },
	{ "basic_auth_users:\n  ada:\n", "2: the hash is not a bcrypt hash" },
	{ "basic_auth_users:\n  ada: " HASH "\n  ada: " HASH "\n", "3: 'ada' is given twice" },
	{ "basic_auth_users:\n  a:b: " HASH "\n", "2: a name with a colon cannot be sent" },
	{ "basic_auth_users:\n  '': " HASH "\n", "2: a name has 1 to 255 bytes" },
	{ "basic_auth_users: [ ada ]\n", "1: keys and values are expected here" },
	{ "rate_limit:\n  burst: 1\n", "2: rate_limit is not kept here" },
};

static void test_wrong(_unused_ void **state)
{
	toolkit_config_free(parsed(""));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_(freep) char *says = NULL;
		struct toolkit_config *config = NULL;
		struct reason why = {};

		assert_true(asprintf(&says, "w.yml:%s", wrong[i].says ?: "") > 0);
		if (!wrong[i].says)
			strcpy(says, "w.yml");
		if (toolkit_config_parse(&config, "w.yml", wrong[i].text, &why) != -EINVAL)
			fail_msg("taken: %s", wrong[i].text);
		assert_null(config);
		if (strncmp(why.text, says, strlen(says)) != 0)
			fail_msg("%s\nsays %s", wrong[i].text, why.text);
	}
}

/* Neither many users nor deep nesting nor aliases of aliases take long, or more than is there. */
static void test_large(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf many = {}, deep = {}, aliases = {};
	struct toolkit_config *config = NULL;
	struct reason why = {};

	toolkit_config_free(parsed(""));
	buf_str(&many, "basic_auth_users:\n");
	for (int i = 0; i <= USERS_MAX; i++)
		buf_printf(&many, "  user%d: " HASH "\n", i);
	buf_char(&many, '\0');
	assert_int_equal(toolkit_config_parse(&config, "w.yml", many.data, &why), -EINVAL);
	assert_string_equal(why.text, "w.yml:1002: more than 1000 keys");
	for (int i = 0; i < 100000; i++)
		buf_char(&deep, '[');
	buf_char(&deep, '\0');
	assert_int_equal(toolkit_config_parse(&config, "w.yml", deep.data, &why), -EINVAL);
	assert_string_equal(why.text, "w.yml: there are more than 1000 opening brackets");
	buf_str(&aliases, "tls_server_config: { client_allowed_sans: &a0 [ x ] }\n");
	for (int i = 1; i < 60; i++)
		buf_printf(&aliases, "x%d: &a%d [ *a%d, *a%d ]\n", i, i, i - 1, i - 1);
	buf_char(&aliases, '\0');
	assert_int_equal(toolkit_config_parse(&config, "w.yml", aliases.data, &why), -EINVAL);
	assert_string_equal(why.text, "w.yml:2: unknown key 'x1'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty), cmocka_unit_test(test_everything), cmocka_unit_test(test_priorities),
		cmocka_unit_test(test_wrong), cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
