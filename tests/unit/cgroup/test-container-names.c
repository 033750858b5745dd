/* SPDX-License-Identifier: MIT */

/* cgroup/container-names: names of containers from the files of their runtimes. */

#include "base/cgroup/container-names.h"
#include "base/util/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

/* NAMESPACE|POD|CONTAINER|IMAGE */
static char *joined(const struct container_texts *texts)
{
	static char text[_CONTAINER_NAME_MAX * CONTAINER_NAME_SIZE];

	(void)snprintf(text, sizeof(text), "%s|%s|%s|%s", texts->text[CONTAINER_NAMESPACE], texts->text[CONTAINER_POD],
		       texts->text[CONTAINER_NAME], texts->text[CONTAINER_IMAGE]);
	return text;
}

static int find(struct container_texts *texts, enum container_file kind, const char *text, size_t size)
{
	json_t *root = container_file_parse(text, size);

	if (!root)
		return -EINVAL;
	container_file_find(texts, root, kind, ID);
	json_decref(root);
	return 0;
}

static void test_files(_unused_ void **state)
{
	static const struct {
		enum container_file kind;
		const char *text, *names;
	} table[] = {
		/* containerd, by its CRI; a limit as runc writes "infinity" */
		{ CONTAINER_BUNDLE,
		  "{\"process\":{\"rlimits\":[{\"hard\":18446744073709551615}]},\"annotations\":{"
		  "\"io.kubernetes.cri.container-type\":\"container\",\"io.kubernetes.cri.container-name\":\"cart\","
		  "\"io.kubernetes.cri.image-name\":\"docker.io/library/cart:2\","
		  "\"io.kubernetes.cri.sandbox-name\":\"shop-0\",\"io.kubernetes.cri.sandbox-namespace\":\"retail\"}}",
		  "retail|shop-0|cart|docker.io/library/cart:2" },
		{ CONTAINER_BUNDLE,
		  "{\"annotations\":{\"io.kubernetes.cri.container-type\":\"sandbox\","
		  "\"io.kubernetes.cri.sandbox-name\":\"shop-0\",\"io.kubernetes.cri.sandbox-namespace\":\"retail\"}}",
		  "retail|shop-0||" },
		/* CRI-O */
		{ CONTAINER_BUNDLE,
		  "{\"annotations\":{\"io.kubernetes.cri-o.ImageName\":\"quay.io/cart:2\","
		  "\"io.kubernetes.cri-o.Name\":\"k8s_shop-0_retail_1\",\"io.kubernetes.container.name\":\"cart\","
		  "\"io.kubernetes.pod.name\":\"shop-0\",\"io.kubernetes.pod.namespace\":\"retail\"}}",
		  "retail|shop-0|cart|quay.io/cart:2" },
		{ CONTAINER_BUNDLE, "{\"annotations\":{\"nerdctl/name\":\"web\"}}", "||web|" },
		{ CONTAINER_DOCKER, "{\"Name\":\"/web\",\"Config\":{\"Image\":\"nginx:1\",\"Labels\":{}}}",
		  "||web|nginx:1" },
		{ CONTAINER_DOCKER,
		  "{\"Name\":\"/k8s_cart_shop-0_retail_1_0\",\"Config\":{\"Image\":\"cart\",\"Labels\":{"
		  "\"io.kubernetes.container.name\":\"cart\",\"io.kubernetes.pod.name\":\"shop-0\","
		  "\"io.kubernetes.pod.namespace\":\"retail\"}}}",
		  "retail|shop-0|cart|cart" },
		{ CONTAINER_STORAGE,
		  "[{\"id\":\"" ID2 "\",\"names\":[\"other\"],\"metadata\":\"{}\"},"
		  "{\"id\":\"" ID "\",\"names\":[\"web-1\",\"x\"],"
		  "\"metadata\":\"{\\\"image-name\\\":\\\"localhost/web:1\\\",\\\"created-at\\\":1795399816}\"}]",
		  "||web-1|localhost/web:1" },
		{ CONTAINER_STORAGE, "[{\"id\":\"" ID "\",\"names\":[\"a\"],\"metadata\":\"{broken\"}]", "||a|" },

		/* Other shapes */
		{ CONTAINER_BUNDLE, "[]", "|||" },
		{ CONTAINER_BUNDLE, "{\"annotations\":[1]}", "|||" },
		{ CONTAINER_BUNDLE, "{\"annotations\":{\"nerdctl/name\":{\"a\":\"b\"}}}", "|||" },
		{ CONTAINER_DOCKER, "{\"Name\":7,\"Config\":\"x\"}", "|||" },
		{ CONTAINER_DOCKER, "{\"Name\":\"/\",\"Config\":{\"Image\":\"\"}}", "|||" },
		{ CONTAINER_STORAGE, "{\"id\":\"" ID "\"}", "|||" },
		{ CONTAINER_STORAGE, "[1,{},{\"id\":7},{\"id\":\"" ID "\",\"names\":\"a\",\"metadata\":[]}]", "|||" },

		/* No names */
		{ CONTAINER_DOCKER, "{\"Name\":\"/a\\u001b[31mb\",\"Config\":{\"Image\":\"a\\nb\"}}", "|||" },
		{ CONTAINER_DOCKER, "{\"Name\":\"/a\\u007f\",\"Config\":{\"Image\":\"\xc3\xbc\"}}", "|||\xc3\xbc" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct container_texts texts = {};

		assert_int_equal(find(&texts, table[i].kind, table[i].text, strlen(table[i].text)), 0);
		assert_string_equal(joined(&texts), table[i].names);
	}
}

/* What one file tells stays, and others add to it. */
static void test_several_files(_unused_ void **state)
{
	static const char bundle[] = "{\"annotations\":{\"io.kubernetes.pod.name\":\"shop-0\"}}";
	static const char docker[] =
		"{\"Name\":\"/web\",\"Config\":{\"Image\":\"i\",\"Labels\":{\"io.kubernetes.pod.name\":\"x\"}}}";
	struct container_texts texts = {};

	assert_int_equal(find(&texts, CONTAINER_BUNDLE, bundle, strlen(bundle)), 0);
	assert_int_equal(find(&texts, CONTAINER_DOCKER, docker, strlen(docker)), 0);
	assert_string_equal(joined(&texts), "|shop-0|web|i");
}

static void test_no_json(_unused_ void **state)
{
	static const struct {
		const char *text;
		size_t size;
	} table[] = {
		{ "", 0 },
		{ "{", 1 },
		{ "{}x", 3 },
		{ "null", 4 },
		{ "{\"a\":\"\xff\"}", 9 },
		{ "{\"a\":\"\xed\xa0\x80\"}", 11 },
		{ "{\"Name\":\"/a\\u0000b\"}", 20 },
		{ "{}\0", 3 },
		{ "{\"a\":1e999}", 11 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct container_texts texts = {};

		if (find(&texts, CONTAINER_DOCKER, table[i].text, table[i].size) != -EINVAL)
			fail_msg("%s", table[i].text);
	}
}

/* Deeper than any stack. */
static void test_depth(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf text = {};
	struct container_texts texts = {};

	for (int i = 0; i < 1000000; i++)
		buf_char(&text, '[');
	assert_int_equal(find(&texts, CONTAINER_STORAGE, text.data, text.len), -EINVAL);
}

static void test_many_labels(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf text = {};
	struct container_texts texts = {};

	buf_str(&text, "{\"annotations\":{");
	for (int i = 0; i < 100000; i++)
		buf_printf(&text, "\"label-%d\":\"%d\",", i, i);
	buf_str(&text, "\"nerdctl/name\":\"web\"}}");
	assert_int_equal(find(&texts, CONTAINER_BUNDLE, text.data, text.len), 0);
	assert_string_equal(joined(&texts), "||web|");
}

static void test_long_names(_unused_ void **state)
{
	for (size_t n = CONTAINER_NAME_SIZE - 1; n <= CONTAINER_NAME_SIZE; n++) {
		_cleanup_(buf_release) struct buf text = {};
		struct container_texts texts = {};

		buf_str(&text, "{\"Name\":\"/");
		for (size_t i = 0; i < n; i++)
			buf_char(&text, 'a');
		buf_str(&text, "\"}");
		assert_int_equal(find(&texts, CONTAINER_DOCKER, text.data, text.len), 0);
		assert_int_equal(strlen(texts.text[CONTAINER_NAME]), n < CONTAINER_NAME_SIZE ? n : 0);
	}
}

/* What is kept has been in memory that a child wrote. */
static void test_keeping(_unused_ void **state)
{
	_cleanup_(container_names_unrefp) struct container_names *names = NULL, *pod = NULL, *none = NULL;
	struct container_texts texts = {};

	assert_int_equal(container_names_new(&names, &texts), -ENODATA);
	strcpy(texts.text[CONTAINER_NAMESPACE], "a\xff");
	memset(texts.text[CONTAINER_POD], 'x', CONTAINER_NAME_SIZE);
	strcpy(texts.text[CONTAINER_NAME], "a\nb");
	strcpy(texts.text[CONTAINER_IMAGE], "image");
	assert_int_equal(container_names_new(&names, &texts), 0);
	assert_string_equal(container_names_text(names, CONTAINER_NAMESPACE), "a\xef\xbf\xbd"
									      "ff");
	assert_null(container_names_text(names, CONTAINER_POD));
	assert_null(container_names_text(names, CONTAINER_NAME));
	assert_string_equal(container_names_text(names, CONTAINER_IMAGE), "image");

	assert_int_equal(container_names_of_pod(&pod, names), 0);
	assert_null(container_names_text(pod, CONTAINER_IMAGE));
	assert_int_equal(container_names_of_pod(&none, pod), 0);
	assert_ptr_equal(container_names_ref(pod), pod);
	assert_null(container_names_unref(pod));
	assert_null(container_names_unref(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),	cmocka_unit_test(test_several_files), cmocka_unit_test(test_no_json),
		cmocka_unit_test(test_depth),	cmocka_unit_test(test_many_labels),   cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_keeping),
	};

	return cmocka_run_group_tests_name("container-names", tests, NULL, NULL);
}
