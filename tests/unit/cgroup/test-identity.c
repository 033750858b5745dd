/* SPDX-License-Identifier: MIT */

/* cgroup/identity: units, slices, containers and pods by a cgroup's path. */

#include "base/cgroup/identity.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID "5f2dcbe5-1a3c-4cf0-9b1e-0a2b3c4d5e6f"
#define UID_ "5f2dcbe5_1a3c_4cf0_9b1e_0a2b3c4d5e6f"
#define HASH "4b5b5b7f3ad3b37ab0e7a0f0b9c0d1e2"

static const struct expected {
	const char *path, *unit, *slice, *container, *pod, *machine;
} cases[] = {
	{ .path = "/" },
	{ .path = "/plain" },
	{ .path = "/a/b/c" },

	/* systemd */
	{ .path = "/init.scope", .unit = "init.scope" },
	{ .path = "/system.slice", .slice = "system.slice" },
	{ .path = "/system.slice/nginx.service", .unit = "nginx.service", .slice = "system.slice" },
	{ .path = "/system.slice/nginx.service/worker", .unit = "nginx.service", .slice = "system.slice" },
	{ .path = "/system.slice/ssh.socket", .unit = "ssh.socket", .slice = "system.slice" },
	{ .path = "/system.slice/dev-hugepages.mount", .unit = "dev-hugepages.mount", .slice = "system.slice" },
	{ .path = "/system.slice/dev-sda2.swap", .unit = "dev-sda2.swap", .slice = "system.slice" },
	{ .path = "/system.slice/system-getty.slice/getty@tty1.service",
	  .unit = "getty@tty1.service",
	  .slice = "system-getty.slice" },
	{ .path = "/system.slice/system-serial\\x2dgetty.slice/serial-getty@ttyS0.service",
	  .unit = "serial-getty@ttyS0.service",
	  .slice = "system-serial\\x2dgetty.slice" },
	{ .path = "/user.slice/user-1000.slice/session-1.scope",
	  .unit = "session-1.scope",
	  .slice = "user-1000.slice" },
	{ .path = "/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service",
	  .unit = "foo.service",
	  .slice = "app.slice" },
	{ .path = "/user.slice/user-1000.slice/user@1000.service/app.slice",
	  .unit = "user@1000.service",
	  .slice = "app.slice" },
	{ .path = "/user.slice/user-1000.slice/user@1000.service/init.scope",
	  .unit = "init.scope",
	  .slice = "user-1000.slice" },
	{ .path = "/machine.slice/machine-a.scope/payload/system.slice/b.service",
	  .machine = "a",
	  .unit = "b.service",
	  .slice = "system.slice" },
	/* cpu.service could be taken for a file of the kernel's, and _a.service for an escaped one. */
	{ .path = "/system.slice/_cpu.service", .unit = "cpu.service", .slice = "system.slice" },
	{ .path = "/system.slice/__a.service", .unit = "_a.service", .slice = "system.slice" },
	{ .path = "/_cpu.slice", .slice = "cpu.slice" },
	/* No units. */
	{ .path = "/system.slice/.service", .slice = "system.slice" },
	{ .path = "/system.slice/_.service", .slice = "system.slice" },
	{ .path = "/.slice" },
	{ .path = "/a b.service" },
	{ .path = "/nginx.service.d" },
	{ .path = "/nginx.Service" },
	{ .path = "/b\xc3\xbc.service" },
	{ .path = "/\xff.service" },

	/* docker */
	{ .path = "/docker" },
	{ .path = "/docker/" ID, .container = ID },
	{ .path = "/docker/" ID "/init", .container = ID },
	{ .path = "/docker/" ID "/docker/" ID2, .container = ID2 },
	{ .path = "/system.slice/docker-" ID ".scope",
	  .unit = "docker-" ID ".scope",
	  .slice = "system.slice",
	  .container = ID },
	{ .path = "/system.slice/docker-" ID ".scope/system.slice/cron.service",
	  .unit = "cron.service",
	  .slice = "system.slice",
	  .container = ID },
	{ .path = "/system.slice/docker.service", .unit = "docker.service", .slice = "system.slice" },

	/* podman */
	{ .path = "/machine.slice/libpod-" ID ".scope",
	  .unit = "libpod-" ID ".scope",
	  .slice = "machine.slice",
	  .container = ID },
	{ .path = "/machine.slice/libpod-" ID ".scope/container",
	  .unit = "libpod-" ID ".scope",
	  .slice = "machine.slice",
	  .container = ID },
	{ .path = "/machine.slice/libpod-conmon-" ID ".scope",
	  .unit = "libpod-conmon-" ID ".scope",
	  .slice = "machine.slice" },
	{ .path = "/machine.slice/machine-libpod_pod_" ID ".slice", .slice = "machine-libpod_pod_" ID ".slice" },
	{ .path = "/machine.slice/machine-libpod_pod_" ID ".slice/libpod-" ID2 ".scope",
	  .unit = "libpod-" ID2 ".scope",
	  .slice = "machine-libpod_pod_" ID ".slice",
	  .container = ID2 },
	{ .path = "/system.slice/web.service/libpod-payload-" ID,
	  .unit = "web.service",
	  .slice = "system.slice",
	  .container = ID },
	{ .path = "/libpod_parent/libpod-" ID, .container = ID },
	{ .path = "/libpod_parent/conmon" },
	{ .path = "/libpod_parent/" ID },
	{ .path = "/libpod_parent/" ID "/libpod-" ID2, .container = ID2 },

	/* Kubernetes with the systemd driver */
	{ .path = "/kubepods.slice", .slice = "kubepods.slice" },
	{ .path = "/kubepods.slice/kubepods-burstable.slice", .slice = "kubepods-burstable.slice" },
	{ .path = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice",
	  .slice = "kubepods-burstable-pod" UID_ ".slice",
	  .pod = UID },
	{ .path = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID
		  ".scope",
	  .unit = "cri-containerd-" ID ".scope",
	  .slice = "kubepods-burstable-pod" UID_ ".slice",
	  .container = ID,
	  .pod = UID },
	{ .path = "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope",
	  .unit = "crio-" ID ".scope",
	  .slice = "kubepods-pod" UID_ ".slice",
	  .container = ID,
	  .pod = UID },
	{ .path = "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope",
	  .unit = "crio-conmon-" ID ".scope",
	  .slice = "kubepods-pod" UID_ ".slice",
	  .pod = UID },
	{ .path = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" HASH ".slice",
	  .slice = "kubepods-besteffort-pod" HASH ".slice",
	  .pod = HASH },
	{ .path = "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" ID
		  ".scope",
	  .unit = "cri-containerd-" ID ".scope",
	  .slice = "kubelet-kubepods-pod" UID_ ".slice",
	  .container = ID,
	  .pod = UID },
	{ .path = "/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID,
	  .unit = "containerd.service",
	  .slice = "system.slice",
	  .container = ID,
	  .pod = UID },

	/* … and the cgroupfs driver */
	{ .path = "/kubepods" },
	{ .path = "/kubepods/burstable" },
	{ .path = "/kubepods/burstable/pod" UID, .pod = UID },
	{ .path = "/kubepods/burstable/pod" UID "/" ID, .container = ID, .pod = UID },
	{ .path = "/kubepods/pod" UID "/crio-" ID, .container = ID, .pod = UID },
	{ .path = "/kubepods/besteffort/pod" HASH "/" ID, .container = ID, .pod = HASH },
	{ .path = "/docker/" ID "/kubelet/kubepods/burstable/pod" UID "/" ID2, .container = ID2, .pod = UID },

	/* Amazon ECS: on EC2 with docker's drivers; on Fargate and Managed Instances */
	{ .path = "/ecs/" UID "/" ID, .container = ID },
	{ .path = "/ecs/" HASH "/" ID, .container = ID },
	{ .path = "/ecstasks.slice/ecstasks-" HASH ".slice/docker-" ID ".scope",
	  .unit = "docker-" ID ".scope",
	  .slice = "ecstasks-" HASH ".slice",
	  .container = ID },
	{ .path = "/ecs/" HASH },
	{ .path = "/ecs/" HASH "/" HASH "-2495160603", .container = HASH "-2495160603" },
	{ .path = "/ecs/" HASH "/" HASH "-2495160603/init", .container = HASH "-2495160603" },

	/* Machines */
	{ .path = "/machine.slice/machine-web.scope/payload",
	  .unit = "machine-web.scope",
	  .slice = "machine.slice",
	  .machine = "web" },
	{ .path = "/machine.slice/machine-qemu\\x2d12\\x2dbuild\\x2d1.scope/libvirt/emulator",
	  .unit = "machine-qemu\\x2d12\\x2dbuild\\x2d1.scope",
	  .slice = "machine.slice",
	  .machine = "build-1" },
	{ .path = "/machine.slice/machine-qemu\\x2d12\\x2d.scope",
	  .unit = "machine-qemu\\x2d12\\x2d.scope",
	  .slice = "machine.slice",
	  .machine = "qemu-12-" },
	{ .path = "/lxc.payload.lxc-1-a\\x2d", .machine = "lxc-1-a\\x2d" },
	{ .path = "/machine.slice/systemd-nspawn@qemu-1-web\\x2da.service",
	  .unit = "systemd-nspawn@qemu-1-web\\x2da.service",
	  .slice = "machine.slice",
	  .machine = "qemu-1-web-a" },
	{ .path = "/machine.slice/machine-a\\x0ab\\x7f\\x2.scope",
	  .unit = "machine-a\\x0ab\\x7f\\x2.scope",
	  .slice = "machine.slice",
	  .machine = "a\\x0ab\\x7f\\x2" },
	{ .path = "/machine.slice/systemd-nspawn@web.service/payload",
	  .unit = "systemd-nspawn@web.service",
	  .slice = "machine.slice",
	  .machine = "web" },
	{ .path = "/lxc.payload.web/init.scope", .unit = "init.scope", .machine = "web" },
	{ .path = "/machine.slice/machine-.scope", .unit = "machine-.scope", .slice = "machine.slice" },
	{ .path = "/lxc.monitor.web" },
	{ .path = "/lxc" },
	{ .path = "/lxc/101", .machine = "101" },
	{ .path = "/lxc/101/ns/system.slice/b.service",
	  .machine = "101",
	  .unit = "b.service",
	  .slice = "system.slice" },
	{ .path = "/lxc/101/ns/lxc/web-1", .machine = "web-1" },
	{ .path = "/lxc.monitor/101" },
	{ .path = "/qemu.slice/100.scope", .unit = "100.scope", .slice = "qemu.slice", .machine = "100" },

	/* Near misses */
	{ .path = "/docker/0123456789abcdef" },
	{ .path = "/docker/" ID "0" },
	{ .path = "/docker/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef" },
	{ .path = "/x-" ID },
	{ .path = "/ecs/" HASH "/" HASH },
	{ .path = "/ecs/" HASH "/" HASH "-" },
	{ .path = "/ecs/" HASH "/" HASH "-2495160603a" },
	{ .path = "/ecs/" HASH "/" HASH "-0123456789012345678901234567890" },
	{ .path = "/ecs/x/" HASH "-2495160603" },
	{ .path = "/ecs/" HASH "/0123456789abcdef0123456789abcdef-2495160603" },
	{ .path = "/qemu.slice/a.scope", .unit = "a.scope", .slice = "qemu.slice" },
	{ .path = "/qemu.slice/100.slice/1.scope", .unit = "1.scope", .slice = "100.slice" },
	{ .path = "/lxcfs/a" },
	{ .path = "/pod" UID },
	{ .path = "/kubepods/podcast" },
	{ .path = "/kubepods/pod" UID "0" },
	{ .path = "/kubepods/pod5f2dcbe5-1a3c-4cf0-9b1e-0a2b3c4d5e6g" },
	{ .path = "/kubepods/pod5f2dcbe51a3c4cf09b1e0a2b3c4d5e6f1234" },
	{ .path = "/kubepods.slice/pod" UID_ ".slice", .slice = "pod" UID_ ".slice" },
	{ .path = "/system.slice/a-pod" UID_ ".slice", .slice = "a-pod" UID_ ".slice" },
};

static void check(const char *what, const char *path, const char *found, const char *expected)
{
	if (!found != !expected || (found && strcmp(found, expected)))
		fail_msg("%s: %s '%s' instead of '%s'", path, what, found ? found : "-", expected ? expected : "-");
}

static void test_origins(_unused_ void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;

		assert_int_equal(cgroup_identity_new(&identity, i, cases[i].path), 0);
		assert_int_equal(identity->id, i);
		check("unit", cases[i].path, identity->unit, cases[i].unit);
		check("slice", cases[i].path, identity->slice, cases[i].slice);
		check("container", cases[i].path, identity->container_id, cases[i].container);
		check("pod", cases[i].path, identity->pod_uid, cases[i].pod);
		check("machine", cases[i].path, identity->machine, cases[i].machine);
		assert_null(identity->names);
	}
}

static void test_labels(_unused_ void **state)
{
	static const char *const labels[][2] = {
		{ "/", "/" },
		{ "/a b/\"c\"\n", "/a b/\"c\"\n" },
		{ "/system.slice/x\\x2dy.service", "/system.slice/x\\x2dy.service" },
		{ "/b\xc3\xbc", "/b\xc3\xbc" },
		{ "/b\xfc", "/b\xef\xbf\xbd"
			    "fc" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;

		assert_int_equal(cgroup_identity_new(&identity, 1, labels[i][0]), 0);
		assert_string_equal(identity->label, labels[i][1]);
	}
}

static void test_long_path(_unused_ void **state)
{
	_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;
	char path[4096];

	for (size_t i = 0; i + 1 < sizeof(path); i++)
		path[i] = i % 2 ? 'a' : '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(cgroup_identity_new(&identity, 1, path), 0);
	assert_string_equal(identity->label, path);
	assert_null(identity->unit);
}

static void test_references(_unused_ void **state)
{
	struct cgroup_identity *identity = NULL;

	assert_int_equal(cgroup_identity_new(&identity, 7, "/a.slice/b.service"), 0);
	assert_int_equal(identity->refs, 1);
	assert_ptr_equal(cgroup_identity_ref(identity), identity);
	assert_null(cgroup_identity_unref(identity));
	assert_string_equal(identity->unit, "b.service");
	assert_null(cgroup_identity_unref(identity));
	assert_null(cgroup_identity_unref(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_long_path),
		cmocka_unit_test(test_references),
	};

	return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
