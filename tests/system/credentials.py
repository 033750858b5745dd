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
