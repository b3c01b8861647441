"""registry.py DIR: one package, in the form of each registry."""

import hashlib
import io
import json
import os
import sys
import tarfile
import zipfile

URL = "https://registry.example.org/files"


def write(name, content):
    path = os.path.join(sys.argv[1], "files", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def tar(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


package = {"name": "tiny", "version": "1.0.0"}
write("npm/tiny-1.0.0.tgz", tar({"package/package.json": json.dumps(package),
                                 "package/index.js": "module.exports = 'tiny by npm';\n"}))
version = {**package, "dist": {"tarball": f"{URL}/npm/tiny-1.0.0.tgz"}}
write("npm/tiny", json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"},
                              "versions": {"1.0.0": version}}))

wheel = io.BytesIO()
with zipfile.ZipFile(wheel, "w") as archive:
    info = "tiny-1.0.0.dist-info/"
    archive.writestr("tiny.py", "NAME = 'tiny by pip'\n")
    archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n")
    archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    archive.writestr(info + "RECORD", f"tiny.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n")
write("tiny-1.0.0-py3-none-any.whl", wheel.getvalue())
write("simple/tiny/index.html", '<a href="../../tiny-1.0.0-py3-none-any.whl">tiny</a>')

manifest = '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n'
crate = tar({"tiny-1.0.0/Cargo.toml": manifest, "tiny-1.0.0/src/lib.rs": ""})
write("crates/tiny-1.0.0.crate", crate)
write("index/config.json", json.dumps({"dl": f"{URL}/crates/{{crate}}-{{version}}.crate"}))
write("index/ti/ny/tiny", json.dumps({"name": "tiny", "vers": "1.0.0", "deps": [], "features": {},
                                      "cksum": hashlib.sha256(crate).hexdigest(), "yanked": False}))
