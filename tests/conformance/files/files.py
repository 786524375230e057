#!/usr/bin/env python3
"""files.py [PORT]: serves on 127.0.0.1 (7299 unless said) what the cases of `artifacts` download. Standard library and git; always the same bytes.

    /plain.txt /run.sh /tree.tar.gz /tree.tgz /tree.tar /tree.tar.bz2 /tree.tar.xz /tree.zip /one.txt.gz
    /broken.tar.gz (cut short)   /escape.tar.gz /escape.zip (a member ../../../escaped.txt)   /link.tar.gz (a link to /etc/passwd)
    /bomb.tar.gz (5000 empty files)   /seen/.. (answers the request's headers, sorted)   /key (403 without X-Key: secret)   /away (302 to /plain.txt)
    /status/N (answers N)   /repo.git (two commits, tag v1, branch side; dumb HTTP)
"""
import bz2, gzip, http.server, io, lzma, os, subprocess, sys, tarfile, tempfile, zipfile

TREE = {"dir/one.txt": (b"one\n", 0o644), "dir/sub/two.txt": (b"two\n", 0o600), "run.sh": (b"#!/bin/sh\necho ran\n", 0o755), "world.txt": (b"w\n", 0o666)}


def tar(members, links=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, (data, mode) in members.items():
            m = tarfile.TarInfo(name); m.size, m.mode, m.mtime = len(data), mode, 1600000000
            t.addfile(m, io.BytesIO(data))
        for name, to in links:
            m = tarfile.TarInfo(name); m.type, m.linkname, m.mtime = tarfile.SYMTYPE, to, 1600000000
            t.addfile(m)
    return out.getvalue()


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, (data, mode) in members.items():
            i = zipfile.ZipInfo(name, (2020, 9, 13, 12, 26, 40)); i.external_attr = (0o100000 | mode) << 16
            z.writestr(i, data)
    return out.getvalue()


squeeze = lambda data: gzip.compress(data, 9, mtime=0)
FILES = {"/plain.txt": b"plain text\n", "/run.sh": b"#!/bin/sh\necho ran\n", "/tree.tar": tar(TREE), "/tree.tar.gz": squeeze(tar(TREE)), "/tree.tgz": squeeze(tar(TREE)),
         "/tree.tar.bz2": bz2.compress(tar(TREE)), "/tree.tar.xz": lzma.compress(tar(TREE)), "/tree.zip": zipped(TREE), "/one.txt.gz": squeeze(b"one\n"),
         "/broken.tar.gz": squeeze(tar(TREE))[:60], "/escape.tar.gz": squeeze(tar({"ok.txt": (b"ok\n", 0o644), "../../../escaped.txt": (b"out\n", 0o644)})),
         "/escape.zip": zipped({"ok.txt": (b"ok\n", 0o644), "../../../escaped.txt": (b"out\n", 0o644)}), "/link.tar.gz": squeeze(tar({"ok.txt": (b"ok\n", 0o644)}, [("link", "/etc/passwd")])),
         "/bomb.tar.gz": squeeze(tar({f"f{i}": (b"", 0o644) for i in range(5000)}))}


def repository(path):
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": path, **{f"GIT_{w}_{k}": v for w in ("AUTHOR", "COMMITTER")
           for k, v in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2020-09-13T12:26:40Z"))}}
    git = lambda *a: subprocess.run(["git", "-C", path, *a], env=env, check=True, stdout=subprocess.DEVNULL)
    write = lambda text: open(os.path.join(path, "file.txt"), "w").write(text)
    git("init", "-q", "-b", "main")
    write("first\n"); git("add", "file.txt"); git("commit", "-q", "-m", "1"); git("tag", "v1"); git("checkout", "-q", "-b", "side")
    write("side\n"); git("commit", "-q", "-a", "-m", "s"); git("checkout", "-q", "main")
    write("second\n"); git("commit", "-q", "-a", "-m", "2"); git("update-server-info")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, data=b"", headers=()):
        self.send_response_only(status)
        for k, v in [("Content-Length", str(len(data))), *headers]: self.send_header(k, v)
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(data)

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path in FILES: return self.answer(200, FILES[path])
        if path.startswith("/seen/"): return self.answer(200, "".join(sorted(f"{k}: {v}\n" for k, v in self.headers.items())).encode())
        if path == "/key": return self.answer(200, b"let in\n") if self.headers.get("X-Key") == "secret" else self.answer(403, b"no key")
        if path == "/away": return self.answer(302, headers=[("Location", "/plain.txt")])
        if path.startswith("/status/"): return self.answer(int(path[8:]), b"as asked")
        if path.startswith("/repo.git/"):
            f = os.path.join(repo, ".git", os.path.normpath("/" + path[10:])[1:])
            return self.answer(200, open(f, "rb").read()) if os.path.isfile(f) else self.answer(404)
        self.answer(404, b"nothing here")

    do_HEAD = do_GET

    def log_message(self, *a): pass


repo = tempfile.mkdtemp()
repository(repo)
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7299), Handler)
print("serving", flush=True)
server.serve_forever()
