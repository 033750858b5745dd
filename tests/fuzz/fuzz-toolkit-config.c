/* SPDX-License-Identifier: MIT */

/* What somebody can write into the web configuration of a fleet. */

#include "fuzz.h"

#include "web/http/toolkit-config.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* What is taken is complete: no half of a pair, and a rule for clients only with an authority. */
static void check_tls(const struct tls_settings *tls)
{
	CHECK(web_file_is_given(&tls->certificate) == web_file_is_given(&tls->key));
	CHECK(!web_file_is_given(&tls->certificate) || tls->priorities);
	CHECK(!tls->client_required || web_file_is_given(&tls->client_ca));
	CHECK(tls->nr_client_names == 0 || tls->client_required);
	for (size_t i = 0; i < tls->nr_client_names; i++)
		CHECK(*tls->client_names[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(toolkit_config_freep) struct toolkit_config *config = NULL;
	_cleanup_(freep) char *text = strndup((const char *)data, size);
	struct reason why = {};
	int r;

	CHECK(text);
	r = toolkit_config_parse(&config, "/f", text, &why);
	if (r < 0) {
		CHECK(r == -EINVAL && !config && strncmp(why.text, "/f:", 3) == 0);
		return 0;
	}
	check_tls(&config->tls);
	for (size_t i = 0; config->users && i < config->users->nr; i++)
		CHECK(strlen(config->users->items[i].hash) == 60);
	return 0;
}
