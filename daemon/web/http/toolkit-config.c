/* SPDX-License-Identifier: MIT */

#include "web/http/toolkit-config.h"

#include "base/util/secret.h"
#include "base/util/text.h"
#include "web/http/toolkit-tls.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#define BRACKETS_MAX 1000

/* One reading of a file. */
struct reader {
	const char *file;
	yaml_document_t document;
	struct toolkit_config *config;
	struct toolkit_tls tls;
	const yaml_node_t *tls_node, *auth_node, *names_node; /* where errors of the whole are; NULL: not given */
	const char *auth_type;
	struct reason *why;
};

/* A key of a mapping, and the function that takes its value. */
struct toolkit_key {
	const char *name;
	int (*take)(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key);
	size_t offset; /* take_file, take_text: of the web_file in struct tls_settings */
	int header;    /* take_header: enum web_header */
};

struct toolkit_config *toolkit_config_free(struct toolkit_config *config)
{
	if (!config)
		return NULL;
	for (size_t i = 0; i < config->nr_texts; i++)
		secret_free(config->texts[i]);
	free(config->texts);
	free((void *)config->tls.client_names);
	users_free(config->users);
	for (int i = 0; i < _WEB_HEADER_MAX; i++)
		free(config->headers[i]);
	free(config);
	return NULL;
}

/* --- nodes */

static unsigned line_of(const yaml_node_t *node)
{
	return (unsigned)node->start_mark.line + 1;
}

_printf_(3, 4) static int fail_node(struct reader *reader, const yaml_node_t *node, const char *format, ...)
{
	char text[REASON_MAX];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return reason_set(reader->why, -EINVAL, "%s:%u: %s", reader->file, line_of(node), text);
}

/* A sentence that is already in why gets its place; out of memory has none. */
static int fail_with_place(struct reader *reader, const yaml_node_t *node, int r)
{
	return r == -EINVAL ? reason_prefix(reader->why, r, "%s:%u", reader->file, line_of(node)) : r;
}

/* Keeps a text, which it takes over, as long as the config. NULL: there is no memory. */
static char *keep_text(struct reader *reader, char *text)
{
	struct toolkit_config *config = reader->config;
	char **texts = reallocarray(config->texts, config->nr_texts + 1, sizeof(*texts));

	if (texts)
		config->texts = texts;
	if (!texts || !text) {
		secret_free(text);
		return NULL;
	}
	return texts[config->nr_texts++] = text;
}

/* An absent value, as YAML 1.1 writes it. */
static bool is_null(const yaml_node_t *node)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };

	if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(nulls); i++)
		if (strcmp((const char *)node->data.scalar.value, nulls[i]) == 0)
			return true;
	return false;
}

/* The text of a scalar, borrowed; "" for null. */
static int text_of(struct reader *reader, const yaml_node_t *node, const char **ret)
{
	if (node->type != YAML_SCALAR_NODE)
		return fail_node(reader, node, "a plain value is expected here, not a %s",
				 node->type == YAML_MAPPING_NODE ? "mapping" : "list");
	if (strcmp((const char *)node->tag, YAML_STR_TAG) != 0)
		return fail_node(reader, node, "a tag (!…) has no meaning here");
	if (strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
		return fail_node(reader, node, "the value contains a NUL byte");
	*ret = is_null(node) ? "" : (const char *)node->data.scalar.value;
	return 0;
}

static int bool_of(struct reader *reader, const yaml_node_t *node, bool *ret)
{
	char excerpt[EXCERPT_MAX];
	const char *text;
	int r = text_of(reader, node, &text);

	if (r < 0)
		return r;
	*ret = strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0 || strcasecmp(text, "on") == 0;
	if (!*ret && strcasecmp(text, "false") && strcasecmp(text, "no") && strcasecmp(text, "off"))
		return fail_node(reader, node, "'%s' is neither true nor false", text_excerpt(excerpt, text));
	return 0;
}

static yaml_node_t *node_at(struct reader *reader, int index)
{
	return yaml_document_get_node(&reader->document, index);
}

/* Calls back for each pair of a mapping, whose keys are texts and differ; null is an empty one. */
typedef int (*pair_taker)(struct reader *reader, const yaml_node_t *key, const char *name, const yaml_node_t *value,
			  const void *userdata);

static bool is_repeated(struct reader *reader, const yaml_node_t *mapping, const yaml_node_pair_t *pair)
{
	const yaml_node_t *key = node_at(reader, pair->key);

	for (const yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < pair; p++)
		if (strcmp((const char *)node_at(reader, p->key)->data.scalar.value,
			   (const char *)key->data.scalar.value) == 0)
			return true;
	return false;
}

static int take_pairs(struct reader *reader, const yaml_node_t *node, pair_taker take, const void *userdata)
{
	char excerpt[EXCERPT_MAX];

	if (is_null(node))
		return 0;
	if (node->type != YAML_MAPPING_NODE)
		return fail_node(reader, node, "keys and values are expected here (KEY: VALUE)");
	for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
	     pair++) {
		const yaml_node_t *key = node_at(reader, pair->key);
		const char *name;
		int r = text_of(reader, key, &name);

		if (r == 0 && pair - node->data.mapping.pairs.start >= USERS_MAX)
			r = fail_node(reader, key, "more than %d keys", USERS_MAX);
		if (r == 0 && is_repeated(reader, node, pair))
			r = fail_node(reader, key, "'%s' is given twice", text_excerpt(excerpt, name));
		if (r == 0)
			r = take(reader, key, name, node_at(reader, pair->value), userdata);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_known(struct reader *reader, const yaml_node_t *node, const char *name, const yaml_node_t *value,
		      const void *userdata)
{
	char excerpt[EXCERPT_MAX];

	for (const struct toolkit_key *key = userdata; key->name; key++)
		if (strcmp(key->name, name) == 0)
			return key->take(reader, value, key);
	return fail_node(reader, node, "unknown key '%s'", text_excerpt(excerpt, name));
}

/* Calls back for each item of a list. */
static int take_items(struct reader *reader, const yaml_node_t *node,
		      int (*take)(struct reader *reader, const yaml_node_t *item, const char *text))
{
	if (is_null(node))
		return 0;
	if (node->type != YAML_SEQUENCE_NODE)
		return fail_node(reader, node, "a list is expected here (- VALUE)");
	for (const yaml_node_item_t *at = node->data.sequence.items.start; at < node->data.sequence.items.top; at++) {
		const yaml_node_t *item = node_at(reader, *at);
		const char *text;
		int r = text_of(reader, item, &text);

		if (r == 0)
			r = take(reader, item, text);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- tls_server_config */

static struct web_file *file_at(struct reader *reader, const struct toolkit_key *key)
{
	return (struct web_file *)((char *)&reader->config->tls + key->offset);
}

/* One of a file's two keys: its name, and its text. *ret_text: "" if the value is empty, as if there were none. */
static int begin_file(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key,
		      const char **ret_text)
{
	struct web_file *file = file_at(reader, key);
	int r = text_of(reader, value, ret_text);

	if (r < 0 || !**ret_text)
		return r;
	if (web_file_is_given(file))
		return fail_node(reader, value, "there are both %s and %s; one is enough", file->key, key->name);
	*file = (struct web_file){ .file = reader->file, .line = line_of(value), .key = key->name };
	return 0;
}

/* A relative path is below the folder of the file. */
static int take_file(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	const char *text, *slash = strrchr(reader->file, '/');
	char *path = NULL;
	int r = begin_file(reader, value, key, &text);

	if (r < 0 || !*text)
		return r;
	if (asprintf(&path, "%.*s%s", *text == '/' || !slash ? 0 : (int)(slash - reader->file) + 1, reader->file,
		     text) < 0)
		path = NULL; /* asprintf(3) leaves it undefined */
	file_at(reader, key)->name = keep_text(reader, path);
	return file_at(reader, key)->name ? 0 : -ENOMEM;
}

static int take_text(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	const char *text;
	int r = begin_file(reader, value, key, &text);

	if (r < 0 || !*text)
		return r;
	file_at(reader, key)->text = keep_text(reader, strdup(text));
	return file_at(reader, key)->text ? 0 : -ENOMEM;
}

static int take_auth_type(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	(void)key;
	reader->auth_node = value;
	return text_of(reader, value, &reader->auth_type);
}

static int take_name(struct reader *reader, const yaml_node_t *item, const char *text)
{
	struct tls_settings *tls = &reader->config->tls;
	char **names = reallocarray((void *)tls->client_names, tls->nr_client_names + 1, sizeof(*names));
	char *name;

	if (!names)
		return -ENOMEM;
	tls->client_names = names;
	if (!*text)
		return fail_node(reader, item, "a name is empty");
	name = keep_text(reader, strdup(text));
	if (!name)
		return -ENOMEM;
	names[tls->nr_client_names++] = name;
	return 0;
}

static int take_names(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	(void)key;
	reader->names_node = is_null(value) ? NULL : value;
	return take_items(reader, value, take_name);
}

static int take_version(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	bool least = strcmp(key->name, "min_version") == 0;
	const char *text;
	int r = text_of(reader, value, &text);

	if (r < 0 || !*text)
		return r;
	r = (least ? toolkit_tls_min_version : toolkit_tls_max_version)(&reader->tls, text, reader->why);
	return fail_with_place(reader, value, r);
}

static int take_suite(struct reader *reader, const yaml_node_t *item, const char *text)
{
	return fail_with_place(reader, item, toolkit_tls_suite(&reader->tls, text, reader->why));
}

static int take_suites(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	(void)key;
	return take_items(reader, value, take_suite);
}

static int take_curve(struct reader *reader, const yaml_node_t *item, const char *text)
{
	return fail_with_place(reader, item, toolkit_tls_curve(&reader->tls, text, reader->why));
}

static int take_curves(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	(void)key;
	return take_items(reader, value, take_curve);
}

static int take_order(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	bool server;
	int r = bool_of(reader, value, &server);

	(void)key;
	if (r == 0)
		reader->tls.client_order = !server;
	return r;
}

#define FILE_KEY(name, member)                                                                                         \
	{                                                                                                              \
		name, take_file, offsetof(struct tls_settings, member), 0                                              \
	}
#define TEXT_KEY(name, member)                                                                                         \
	{                                                                                                              \
		name, take_text, offsetof(struct tls_settings, member), 0                                              \
	}

static int take_tls(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	static const struct toolkit_key keys[] = {
		FILE_KEY("cert_file", certificate),
		TEXT_KEY("cert", certificate),
		FILE_KEY("key_file", key),
		TEXT_KEY("key", key),
		FILE_KEY("client_ca_file", client_ca),
		TEXT_KEY("client_ca", client_ca),
		{ "client_auth_type", take_auth_type, 0, 0 },
		{ "client_allowed_sans", take_names, 0, 0 },
		{ "min_version", take_version, 0, 0 },
		{ "max_version", take_version, 0, 0 },
		{ "cipher_suites", take_suites, 0, 0 },
		{ "prefer_server_cipher_suites", take_order, 0, 0 },
		{ "curve_preferences", take_curves, 0, 0 },
		{},
	};

	(void)key;
	reader->tls_node = value;
	return take_pairs(reader, value, take_known, keys);
}

/* Sets whether clients need certificates. */
static int apply_auth_type(struct reader *reader, bool *ret_asked)
{
	const char *type = reader->auth_type ?: "";
	char excerpt[EXCERPT_MAX];

	*ret_asked = strcmp(type, "RequireAndVerifyClientCert") == 0 || strcmp(type, "VerifyClientCertIfGiven") == 0;
	reader->config->tls.client_required = strcmp(type, "RequireAndVerifyClientCert") == 0;
	if (*ret_asked || !*type || strcmp(type, "NoClientCert") == 0)
		return 0;
	if (strcmp(type, "RequestClientCert") == 0 || strcmp(type, "RequireAnyClientCert") == 0 ||
	    strcmp(type, "RequireClientCert") == 0)
		return fail_node(reader, reader->auth_node,
				 "%s lets in clients whose certificates nobody has verified; write "
				 "RequireAndVerifyClientCert or VerifyClientCertIfGiven",
				 type);
	return fail_node(reader, reader->auth_node,
			 "'%s' is no client_auth_type; write RequireAndVerifyClientCert, VerifyClientCertIfGiven or "
			 "NoClientCert",
			 text_excerpt(excerpt, type));
}

/* What belongs together. */
static int check_clients(struct reader *reader, bool asked)
{
	const struct tls_settings *tls = &reader->config->tls;

	if (asked && !web_file_is_given(&tls->client_ca))
		return fail_node(reader, reader->auth_node,
				 "%s needs client_ca_file: the machine's own authorities are not asked",
				 reader->auth_type);
	if (!asked && web_file_is_given(&tls->client_ca))
		return fail_node(reader, reader->tls_node,
				 "there is a %s, but no client_auth_type that verifies clients", tls->client_ca.key);
	if (reader->names_node && !tls->client_required)
		return fail_node(reader, reader->names_node,
				 "client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert");
	if (reader->names_node && tls->nr_client_names == 0)
		return fail_node(reader, reader->names_node, "client_allowed_sans is empty: no client could get in");
	return 0;
}

static int finish_tls(struct reader *reader)
{
	struct tls_settings *tls = &reader->config->tls;
	char *priorities;
	bool asked;
	int r;

	if (!reader->tls_node)
		return 0;
	r = apply_auth_type(reader, &asked);
	if (r == 0)
		r = check_clients(reader, asked);
	if (r == 0)
		r = fail_with_place(reader, reader->tls_node,
				    toolkit_tls_priorities(&reader->tls, &priorities, reader->why));
	if (r < 0)
		return r;
	tls->priorities = keep_text(reader, priorities);
	tls->names_are_exact = true;
	if (!tls->priorities)
		return -ENOMEM;
	if (web_file_is_given(&tls->certificate) != web_file_is_given(&tls->key) ||
	    (asked && !web_file_is_given(&tls->certificate)))
		return fail_node(reader, reader->tls_node, "there is no %s",
				 web_file_is_given(&tls->certificate) ? "key_file" : "cert_file");
	return 0;
}

/* --- http_server_config */

static int take_http2(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	(void)key;
	return bool_of(reader, value, &reader->config->wants_http2);
}

/* As exporter-toolkit checks values. */
static int check_header(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key,
			const char *text)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
			return fail_node(reader, value, "%s: only ASCII without control characters can be sent",
					 key->name);
	if (key->header == WEB_HEADER_FRAME_OPTIONS && strcmp(text, "deny") && strcmp(text, "sameorigin"))
		return fail_node(reader, value, "%s is either deny or sameorigin", key->name);
	if (key->header == WEB_HEADER_CONTENT_TYPE_OPTIONS && strcmp(text, "nosniff"))
		return fail_node(reader, value, "%s can only be nosniff", key->name);
	return 0;
}

static int take_header(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	const char *text;
	int r = text_of(reader, value, &text);

	if (r == 0 && *text)
		r = check_header(reader, value, key, text);
	if (r < 0 || !*text)
		return r;
	reader->config->headers[key->header] = strdup(text);
	return reader->config->headers[key->header] ? 0 : -ENOMEM;
}

static int take_headers(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	static const struct toolkit_key keys[] = {
		{ "Content-Security-Policy", take_header, 0, WEB_HEADER_SECURITY_POLICY },
		{ "X-Frame-Options", take_header, 0, WEB_HEADER_FRAME_OPTIONS },
		{ "X-Content-Type-Options", take_header, 0, WEB_HEADER_CONTENT_TYPE_OPTIONS },
		{ "X-XSS-Protection", take_header, 0, WEB_HEADER_XSS_PROTECTION },
		{ "Strict-Transport-Security", take_header, 0, WEB_HEADER_STRICT_TRANSPORT },
		{},
	};
	char *const *headers = reader->config->headers;
	int r = take_pairs(reader, value, take_known, keys);

	(void)key;
	if (r == 0 && headers[WEB_HEADER_FRAME_OPTIONS] && !headers[WEB_HEADER_SECURITY_POLICY] &&
	    strcmp(headers[WEB_HEADER_FRAME_OPTIONS], "sameorigin") == 0)
		r = fail_node(
			reader, value,
			"X-Frame-Options: sameorigin has no effect beside perfmond's own policy, which forbids frames; "
			"set Content-Security-Policy as well");
	return r;
}

static int take_http(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	static const struct toolkit_key keys[] = {
		{ "http2", take_http2, 0, 0 },
		{ "headers", take_headers, 0, 0 },
		{},
	};

	(void)key;
	return take_pairs(reader, value, take_known, keys);
}

/* --- the whole */

static int take_user(struct reader *reader, const yaml_node_t *key, const char *name, const yaml_node_t *value,
		     const void *userdata)
{
	const char *hash;
	int r = text_of(reader, value, &hash);

	(void)userdata;
	if (r == 0 && strchr(name, ':'))
		r = fail_node(reader, key, "a name with a colon cannot be sent");
	if (r == 0 && !reader->config->users)
		reader->config->users = users_new();
	if (r == 0)
		r = reader->config->users ? users_add(reader->config->users, name, hash, reader->why) : -ENOMEM;
	else
		return r;
	return fail_with_place(reader, value, r);
}

static int take_users(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	(void)key;
	return take_pairs(reader, value, take_user, NULL);
}

static int refuse_rate_limit(struct reader *reader, const yaml_node_t *value, const struct toolkit_key *key)
{
	return fail_node(reader, value,
			 "%s is not kept here; perfmond has limits of its own ([web] max_connections, …)", key->name);
}

static int take_all(struct reader *reader)
{
	static const struct toolkit_key keys[] = {
		{ "tls_server_config", take_tls, 0, 0 },
		{ "http_server_config", take_http, 0, 0 },
		{ "basic_auth_users", take_users, 0, 0 },
		{ "rate_limit", refuse_rate_limit, 0, 0 },
		{},
	};
	const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
	int r = root ? take_pairs(reader, root, take_known, keys) : 0;

	return r == 0 ? finish_tls(reader) : r;
}

static int fail_yaml(const yaml_parser_t *parser, const char *file, struct reason *why)
{
	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (parser->error == YAML_READER_ERROR)
		return reason_set(why, -EINVAL, "%s: the file is not UTF-8 (at byte %zu)", file,
				  parser->problem_offset);
	return reason_set(why, -EINVAL, "%s:%zu: the file is not YAML: %s", file, parser->problem_mark.line + 1,
			  parser->problem ?: "it cannot be parsed");
}

/* A second document in the file would be ignored. */
static int check_end(yaml_parser_t *parser, const char *file, struct reason *why)
{
	yaml_document_t next;
	const yaml_node_t *root;
	int r = 0;

	if (!yaml_parser_load(parser, &next))
		return fail_yaml(parser, file, why);
	root = yaml_document_get_root_node(&next);
	if (root)
		r = reason_set(why, -EINVAL, "%s:%u: there is a second document in the file", file, line_of(root));
	yaml_document_delete(&next);
	return r;
}

static int read_document(struct reader *reader, yaml_parser_t *parser)
{
	int r;

	if (!yaml_parser_load(parser, &reader->document))
		return fail_yaml(parser, reader->file, reader->why);
	r = take_all(reader);
	if (r == 0 && yaml_document_get_root_node(&reader->document))
		r = check_end(parser, reader->file, reader->why);
	yaml_document_delete(&reader->document);
	return r;
}

/* For each level of brackets libyaml takes longer with every token. No file that is meant here has many. */
static bool has_many_brackets(const char *text)
{
	size_t nr = 0;

	while (nr <= BRACKETS_MAX && (text = strpbrk(text, "[{"))) {
		text++;
		nr++;
	}
	return nr > BRACKETS_MAX;
}

int toolkit_config_parse(struct toolkit_config **ret, const char *file, const char *text, struct reason *why)
{
	_cleanup_(toolkit_config_freep) struct toolkit_config *config = calloc(1, sizeof(*config));
	struct reader reader = { .file = file, .config = config, .why = why };
	yaml_parser_t parser;
	int r;

	if (has_many_brackets(text))
		return reason_set(why, -EINVAL, "%s: there are more than %d opening brackets", file, BRACKETS_MAX);
	if (!config || !yaml_parser_initialize(&parser))
		return reason_set(why, -ENOMEM, "out of memory");
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	r = read_document(&reader, &parser);
	yaml_parser_delete(&parser);
	if (r == -ENOMEM)
		return reason_set(why, r, "out of memory");
	if (r < 0)
		return r;
	*ret = steal_ptr(config);
	return 0;
}
