#!/usr/bin/env python3
"""Checks manifests of Kubernetes with its published JSON schemas, in which no unknown field may be.

    read_manifests.py FILE...

Without kubernetes-validate, which brings the schemas, it says that it skips the check: `skipped: kubernetes-validate: <reason>`. Exits with 1 at
the first fault. CI installs what requirements.txt lists.
"""

import sys
from pathlib import Path

# The oldest version with all fields that the manifests have (podReplacementPolicy, backoffLimitPerIndex), and the newest in the package.
OLDEST = "1.29"


def main(paths):
    try:
        import kubernetes_validate
        import yaml
    except ImportError as missing:
        print(f"skipped: kubernetes-validate: {missing}")
        return
    versions = (OLDEST, kubernetes_validate.latest_version())
    for path in paths:
        documents = list(yaml.safe_load_all(Path(path).read_text(encoding="utf-8")))
        for document in documents:
            for version in versions:
                kubernetes_validate.validate(document, version, strict=True)
        print(f"agrees: {Path(path).name}: {len(documents)} objects, by the schemas of {' and '.join(versions)}")


if __name__ == "__main__":
    main(sys.argv[1:])
