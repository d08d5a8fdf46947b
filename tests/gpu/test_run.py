"""`tilewright run` on a GPU. No time is asserted."""

import json

from typer.testing import CliRunner

from tilewright.cli import app


def test_run_takes_fields_of_a_config(torch, gpu):
    wgmma = gpu.hardware.capability == 90
    kernel, fields = ("wgmma", {"tile_m": 64, "split_k": 4, "cluster_m": 2}) if wgmma else ("mma", {"tile_m": 64})
    text = ",".join(f"{name}={value}" for name, value in fields.items())
    done = CliRunner().invoke(app, ["run", "100", "512", "4096", "--kernel", kernel, "--config", text, "--json"])
    assert done.exit_code == 0, (done.stderr, done.exception)
    record = json.loads(done.stdout)
    assert (record["verified"], record["backend"], record["kernel"]) == (True, "gpu", kernel)
    assert {name: record["config"][name] for name in fields} == fields
    assert record["time_us"] > 0
