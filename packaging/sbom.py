"""Prints a software bill of materials (CycloneDX 1.5) of the program: every crate that is linked into it.

Usage: sbom.py TARGET COMMIT, in the workspace. Build scripts and test-only crates are not part of the program.
"""

import json
import subprocess
import sys
import tomllib


def main():
    target, commit = sys.argv[1:3]
    words = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    told = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    root = next(package["id"] for package in told["packages"] if package["name"] == "songline")
    linked, waiting = set(), [root]
    while waiting:
        name = waiting.pop()
        if name in linked:
            continue
        linked.add(name)
        for dependency in nodes[name]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    with open("Cargo.lock", "rb") as file:
        locked = tomllib.load(file)["package"]
    sums = {(package["name"], package["version"]): package.get("checksum") for package in locked}

    def reference(package):
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(package):
        out = {
            "type": "library",
            "bom-ref": reference(package),
            "name": package["name"],
            "version": package["version"],
            "purl": reference(package),
        }
        if package["license"]:
            out["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = sums.get((package["name"], package["version"]))
        if checksum:
            out["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return out

    found = sorted((packages[name] for name in linked if name != root), key=lambda it: (it["name"], it["version"]))
    inside = {name: sorted(reference(packages[dep["pkg"]]) for dep in nodes[name]["deps"] if dep["pkg"] in linked) for name in linked}
    program = packages[root]
    print(json.dumps({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": reference(program),
                "name": "songline",
                "version": program["version"],
                "licenses": [{"expression": program["license"]}],
                "properties": [{"name": "commit", "value": commit}, {"name": "target", "value": target}],
            }
        },
        "components": [component(package) for package in found],
        "dependencies": [
            {"ref": reference(packages[name]), "dependsOn": inside[name]}
            for name in sorted(linked, key=lambda name: reference(packages[name]))
        ],
    }, indent=1))


main()
