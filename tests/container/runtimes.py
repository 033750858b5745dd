# SPDX-License-Identifier: MIT
"""podman, containerd and docker of Debian, unpacked and not installed, each with folders of a test's own."""

import os
import secrets
import shutil
import subprocess

import harness
from tree import BUILD

PACKAGES = BUILD
STAY = "int pause(void); int main(void) { return pause(); }\n"
# Fewer than any machine of tests allows: a container's own limits are higher than these by default.
LIMITS = ["--ulimit", "nofile=512:512", "--ulimit", "nproc=100:100"]


def find(package, program):
    path = PACKAGES / package / "usr" / program
    return str(path) if path.is_file() else None


def run(*command, **kwargs):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False, **kwargs)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


def make_root(folder):
    """A file tree with one program, which does nothing."""
    (folder / "bin").mkdir(parents=True)
    source = folder.with_suffix(".c")
    source.write_text(STAY)
    run("gcc", "-static", "-Os", "-o", folder / "bin/stay", source)
    archive = folder.with_suffix(".tar")
    run("tar", "-C", folder, "-cf", archive, "bin")
    return archive


class Podman:
    def __init__(self, folder, parent):
        self.folder, self.parent = folder, parent
        config = folder / "containers.conf"
        config.write_text(
            f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\nruntime = "runc"\n'
            f'conmon_path = ["{find("conmon", "bin/conmon")}"]\n'
            f'[engine.runtimes]\nrunc = ["{shutil.which("runc")}"]\n')
        # The machine may have none (/etc/containers), which is a package of its own.
        policy = folder / ".config/containers/policy.json"
        policy.parent.mkdir(parents=True)
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')
        libraries = next((PACKAGES / "libsubid4").glob("usr/lib/*"))
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "CONTAINERS_CONF": str(config),
                    "HOME": str(folder)}
        self.files = folder / "root/vfs-containers"

    def __call__(self, *args):
        return run(find("podman", "bin/podman"), "--root", self.folder / "root", "--runroot", self.folder / "run",
                   "--tmpdir", self.folder / "tmp", "--storage-driver", "vfs", *args, env=self.env)

    def start(self, archive, name, image):
        self("import", archive, image)
        return self("run", "-d", "--name", name, "--network", "none", *LIMITS, "--cgroup-parent", self.parent, image,
                    "/bin/stay")

    def stop(self):
        self("rm", "-fa", "-t", "0")


class Server:
    """A daemon in the background, until stop()."""

    def answers(self):
        try:
            return self("version") != ""
        except AssertionError:
            return False

    def start_server(self, folder, command, env):
        with open(folder / "log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=env)
        try:
            harness.until(lambda: (folder / "socket").exists() and self.answers(), command[0])
        except BaseException:
            self.stop_server()
            raise

    def stop_server(self):
        self.process.terminate()
        self.process.wait(20)


class Containerd(Server):
    def __init__(self, folder, parent):
        self.parent, self.socket = parent, folder / "socket"
        config = folder / "config.toml"
        config.write_text(f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
                          f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{self.socket}"\n')
        self.path = f"{PACKAGES}/containerd/usr/bin:{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": self.path}
        self.start_server(folder, [find("containerd", "bin/containerd"), "-c", config], self.env)
        self.files = folder / "state/io.containerd.runtime.v2.task"
        self.containers = []

    def __call__(self, *args):
        return run(find("containerd", "bin/ctr"), "-a", self.socket, "-n", "k8s.io", *args, env=self.env)

    def start(self, root, annotations):
        """As its CRI does: the id, and what is known of the container as annotations."""
        name = secrets.token_hex(32)
        options = [option for key, value in annotations.items() for option in ("--annotation", f"{key}={value}")]
        self("run", "-d", "--rootfs", "--no-pivot", "--cgroup", f"{self.parent}/{name}", *options, root, name,
             "/bin/stay")
        self.containers.append(name)
        return name

    def stop(self):
        for name in self.containers:
            self("task", "rm", "-f", name)
            self("container", "rm", name)
        self.stop_server()


class Docker(Server):
    def __init__(self, folder, parent, containerd):
        self.socket = f"unix://{folder}/socket"
        command = [find("docker.io", "sbin/dockerd"), "--data-root", folder / "root", "--exec-root", folder / "exec",
                   "--pidfile", folder / "pid", "-H", self.socket, "--containerd", containerd.socket,
                   "--storage-driver", "vfs", "--iptables=false", "--ip6tables=false", "--bridge=none",
                   "--cgroup-parent", parent, "--exec-opt", "native.cgroupdriver=cgroupfs"]
        self.env = {**os.environ, "PATH": f"{PACKAGES}/docker.io/usr/sbin:{PACKAGES}/docker.io/usr/bin:"
                                          f"{containerd.path}", "DOCKER_CONFIG": str(folder)}
        self.start_server(folder, command, self.env)
        self.files = folder / "root/containers"

    def __call__(self, *args):
        return run(find("docker.io", "bin/docker"), "-H", self.socket, *args, env=self.env)

    def start(self, archive, name, image):
        self("import", archive, image)
        return self("run", "-d", "--name", name, "--network", "none", *LIMITS, image, "/bin/stay")

    def stop(self):
        for name in self("ps", "-aq").split():
            self("rm", "-f", name)
        self.stop_server()
