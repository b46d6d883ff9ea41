#!/usr/bin/env python3
"""Links between the pages of this repository: those whose file or heading is not there; exits with 1 if there are any."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page):
    """The headings of a page, as GitHub names them."""
    found = set()
    for heading in re.findall(r"^#+ +(.+)$", FENCED.sub("", page.read_text()), re.MULTILINE):
        name = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
        repeated = name
        number = 0
        while repeated in found:
            number += 1
            repeated = f"{name}-{number}"
        found.add(repeated)
    return found


def pages():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    # Without git (an unpacked archive) all that lies there outside of builds.
    return [ROOT / name for name in listed] or [p for p in ROOT.rglob("*.md") if "build" not in p.relative_to(ROOT).parts]


def broken(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (heading and linked.suffix == ".md" and heading not in anchors(linked)):
            yield f"{page.relative_to(ROOT)}: {target}"


def main():
    found = [link for page in pages() if page.exists() for link in broken(page)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
