# SPDX-License-Identifier: MIT
"""A certificate with its key, and users with their passwords."""

import ctypes
import subprocess


def bcrypt(password, cost=5):
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    return crypt(password.encode(), b"$2b$%02d$abcdefghijklmnopqrstuu" % cost).decode()


class Files:
    """A certificate with its key, and users, that are replaced as a whole."""

    def __init__(self, folder):
        self.certificate, self.key, self.users = (folder / name for name in ("cert.pem", "key.pem", "users"))
        self.certify()
        self.write_users(ada="engine")

    def certify(self, name="first"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", self.key, "-out", self.certificate, "-days", "2", "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
        self.key.chmod(0o600)

    def write_users(self, **users):
        self.users.write_text("".join(f"{name}:{bcrypt(password)}\n" for name, password in users.items()))
        self.users.chmod(0o600)

    @property
    def tls(self):
        return f"tls_certificate = {self.certificate}\ntls_key = {self.key}\n"

    @property
    def auth(self):
        return f"users = {self.users}\n"

    @property
    def access(self):
        return {"verify": str(self.certificate), "auth": ("ada", "engine")}


AUTHORITY = """
[ca]
default_ca = this
[this]
dir = {folder}
database = $dir/index.txt
serial = $dir/serial
crlnumber = $dir/crlnumber
new_certs_dir = $dir
certificate = $dir/ca.pem
private_key = $dir/ca.key
default_md = sha256
default_days = 2
default_crl_days = 2
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""


class Authority:
    """One that issues certificates of clients, with openssl, and revokes them. ca and crl are its files."""

    def __init__(self, folder, name="fleet"):
        folder.mkdir()
        self.folder, self.ca, self.crl = folder, folder / "ca.pem", folder / "crl.pem"
        (folder / "index.txt").touch()
        for file in ("serial", "crlnumber"):
            (folder / file).write_text("01\n")
        self.config = folder / "ca.conf"
        self.config.write_text(AUTHORITY.format(folder=folder))
        self._openssl("req", "-x509", *self._new_key(folder / "ca.key"), "-out", self.ca, "-days", "3",
                      "-subj", f"/CN={name}")
        self.list_revoked()

    def _openssl(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=self.folder)

    @staticmethod
    def _new_key(path):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path]

    def issue(self, name, *options, san="DNS:prometheus.example", purpose="clientAuth"):
        """(certificate, key) as requests' cert= takes them; options go to `openssl ca`."""
        request, key, certificate = (self.folder / f"{name}.{kind}" for kind in ("csr", "key", "pem"))
        extensions = [f"subjectAltName={san}"] * bool(san) + [f"extendedKeyUsage={purpose}"] * bool(purpose)
        self._openssl("req", "-new", *self._new_key(key), "-out", request, "-subj", f"/CN={name}",
                      *[part for extension in extensions for part in ("-addext", extension)])
        self._openssl("ca", "-batch", "-notext", "-config", self.config, "-in", request, "-out", certificate, *options)
        return str(certificate), str(key)

    def expired(self, name):
        return self.issue(name, "-startdate", "20200101000000Z", "-enddate", "20200102000000Z")

    def revoke(self, pair):
        self._openssl("ca", "-config", self.config, "-revoke", pair[0])
        self.list_revoked()

    def list_revoked(self, *options):
        self._openssl("ca", "-config", self.config, "-gencrl", "-out", self.crl, *options)
