# A small report, made of the things that agents' programs are made of: files, json, statistics, a subprocess.
import csv
import json
import pathlib
import random
import statistics
import subprocess
import sys

# 1. Write raw data into the session's private workspace.
random.seed(2026)
folder = pathlib.Path("data")
folder.mkdir(exist_ok=True)
with (folder / "sales.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["region", "month", "revenue"])
    for region in ("north", "south", "east", "west"):
        for month in range(1, 13):
            writer.writerow([region, month, round(random.gauss(1000, 180), 2)])

# 2. Read it back and summarise.
regions = {}
with (folder / "sales.csv").open() as file:
    for row in csv.DictReader(file):
        regions.setdefault(row["region"], []).append(float(row["revenue"]))
summary = {
    region: {
        "total": round(sum(values), 2),
        "median": round(statistics.median(values), 2),
        "stdev": round(statistics.stdev(values), 2),
    }
    for region, values in sorted(regions.items())
}
(folder / "summary.json").write_text(json.dumps(summary, indent=2))

print(f"{'region':<8}{'total':>12}{'median':>10}{'stdev':>9}")
for region, row in summary.items():
    print(f"{region:<8}{row['total']:>12,.2f}{row['median']:>10,.2f}{row['stdev']:>9,.2f}")

# 3. Check the result with a second program, in the same jail.
check = subprocess.run(
    [sys.executable, "-c", "import json, sys; print(len(json.load(open(sys.argv[1]))), 'regions read back')",
     str(folder / "summary.json")],
    capture_output=True, text=True, check=True)
print(check.stdout.strip())

# 4. See that the jail is one: the host's secrets are not there, and neither is a network.
for path in ("/etc/shadow", "/root", "/home"):
    try:
        list(pathlib.Path(path).iterdir()) if path != "/etc/shadow" else pathlib.Path(path).read_text()
        print(f"{path}: readable?!")
    except OSError as error:
        print(f"{path}: {error.strerror}")

result = max(summary, key=lambda region: summary[region]["total"])
