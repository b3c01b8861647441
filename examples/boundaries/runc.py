#!/usr/bin/env python3
"""A boundary for pinfold that has runc run its containers. docs/guides/plugins.md says what it is asked."""
import json, os, shutil, subprocess, sys

PLACE = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or os.path.expanduser("~/.cache"), "pinfold-runc")
RUNC = ["runc", "--root", os.path.join(PLACE, "state")]
DEVNULL = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


def spec(asked):
    root, (uid, gid) = os.geteuid() == 0, (asked["user"]["uid"], asked["user"]["gid"])
    kinds = ["pid", "mount", "ipc", "uts", "network"] + ([] if root else ["user"])
    mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
              {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]}]
    for mount in asked["mounts"]:
        access = "rw" if mount["writable"] else "ro"
        mounts.append({"destination": mount["target"], "source": mount["source"], "options": ["rbind", access]})
    linux = {"namespaces": [{"type": kind} for kind in kinds], "seccomp": json.load(open(asked["seccomp"]))}
    if not root:  # Without root the container's only user is root by name.
        linux["uidMappings"] = [{"containerID": 0, "hostID": uid, "size": 1}]
        linux["gidMappings"] = [{"containerID": 0, "hostID": gid, "size": 1}]
    user = {"uid": uid, "gid": gid} if root else {"uid": 0, "gid": 0}
    rights = [] if root else ["CAP_SETFCAP"]  # by which such a user maps itself into a namespace below
    process = {"user": user, "args": asked["argv"], "cwd": "/", "noNewPrivileges": True,
               "capabilities": {"bounding": rights, "permitted": rights, "effective": rights}}
    return {"ociVersion": "1.0.2", "root": {"path": "rootfs", "readonly": True},
            "process": process, "mounts": mounts, "linux": linux}


def launch(question):
    asked = question["container"]
    bundle = os.path.join(PLACE, asked["name"])
    os.makedirs(os.path.join(bundle, "rootfs"))
    with open(os.path.join(bundle, "config.json"), "w") as config:
        json.dump(spec(asked), config)
    # It stays until the container has ended, and takes what is left away.
    script = 'bundle=$1; shift; "$@" 2>"$bundle/log"; rm -rf "$bundle"'
    run = RUNC + ["run", "--bundle", bundle, asked["name"]]
    subprocess.Popen(["sh", "-c", script, "sh", bundle] + run, start_new_session=True,
                     stderr=subprocess.DEVNULL, **DEVNULL)


def stop(question):
    subprocess.run(RUNC + ["delete", "--force", question["name"]], stderr=subprocess.DEVNULL, **DEVNULL)
    shutil.rmtree(os.path.join(PLACE, question["name"]), ignore_errors=True)


verb, question, answer = sys.argv[1], json.load(sys.stdin), {"version": 1}
os.environ["PATH"] += ":/usr/sbin:/sbin"
if verb == "is_available":
    answer["available"] = shutil.which("runc") is not None
    answer["reason"], answer["hint"] = "runc is not installed", "sudo apt install runc"
elif verb == "capabilities":
    answer["cpus"] = False
elif verb == "list":
    names = os.listdir(PLACE) if os.path.isdir(PLACE) else []
    answer["containers"] = [name for name in names if name.startswith("pinfold-")]
elif verb in ("launch", "stop"):
    {"launch": launch, "stop": stop}[verb](question)
elif verb != "ensure_running":
    sys.exit(f"{verb} is unknown")
print(json.dumps(answer))
