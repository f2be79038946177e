"""The benchmark's own arithmetic: what it calls right, what it refuses, what it calls a regression, and what it prints."""

import copy
import json
import math
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import torch
from bench_sample import sample

from transfuse.emit import File
from transfuse.bench import (
    accuracy,
    compare,
    driver,
    figures,
    network,
    networks,
    page,
    peers,
    record,
    rows,
    table,
    timing,
    worker,
)

ROW = '''
"""A small decoder piece"""
import torch, torch.nn as nn
batch_size = 8
class Model(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.up = nn.ConvTranspose2d(a, b, 3, stride=2, padding=1, output_padding=1)
    def forward(self, x):
        return self.up(x).mean((2, 3))
def get_inputs():
    return [torch.rand(batch_size, 4, 9, 9)]
def get_init_inputs():
    return [4, 6]
'''


@pytest.fixture
def folder(tmp_path):
    for name in ("A", "d1", "d10", "d2", "f1", "net"):
        (tmp_path / f"{name}.py").write_text(ROW)
    return tmp_path


def test_rows_are_found_by_id_group_and_path(folder):
    ids = lambda wanted: [r.id for r in rows.find_rows(wanted, folder)]  # noqa: E731
    assert ids(None) == ["A", "d1", "d2", "d10", "f1", "net"]
    assert ids(["d", "A"]) == ["d1", "d2", "d10", "A"]
    assert ids([str(folder / "net.py")]) == ["net"]
    assert ids(["whole"]) == ["net"]
    with pytest.raises(SystemExit, match="unknown row 'Z'"):
        ids(["Z"])


def test_a_file_that_is_named_is_timed_as_it_is(folder):
    def divisors(device, *arguments):
        options = driver.parser().parse_args(["--models-folder", str(folder), *arguments])
        return [spec["batch_divisor"] for _, spec in driver.jobs(options, device)]

    assert divisors("cpu", "A", str(folder / "net.py")) == [8, 1]
    assert divisors("cuda", "A", str(folder / "net.py")) == [1, 1]
    assert divisors("cpu", "A", str(folder / "net.py"), "--batch-divisor", "4") == [4, 4]


def test_batch_is_cut_and_seeds_repeat(folder):
    model, inputs = rows.build(str(folder / "A.py"), "cpu", seed=3, batch_divisor=4)
    assert inputs[0].shape == (2, 4, 9, 9)
    again, same = rows.build(str(folder / "A.py"), "cpu", seed=3, batch_divisor=4)
    assert torch.equal(inputs[0], same[0]) and torch.equal(model.up.weight, again.up.weight)
    assert rows.build(str(folder / "A.py"), "cpu", batch=1)[1][0].shape[0] == 1
    assert rows.title(str(folder / "A.py")) == "A small decoder piece"


def test_a_wrong_result_is_called_wrong():
    reference = torch.rand(1000, dtype=torch.float64)
    theirs = accuracy.errors([(reference * (1 + 1e-4 * torch.randn(1000, dtype=torch.float64))).float()], [reference])
    right = accuracy.errors(
        [(reference * (1 + 1e-4 * torch.randn(1000, dtype=torch.float64))).float() * 1.0], [reference]
    )
    assert accuracy.verdict(theirs, theirs, [torch.float32]) == "right"
    assert right[0].rms == pytest.approx(1e-4, rel=0.2)
    for spoil in (lambda t: t * 1.01, lambda t: t[:-1], lambda t: torch.where(torch.arange(1000) == 7, math.nan, t)):
        bad = accuracy.errors([spoil(reference.float())], [reference])
        assert accuracy.verdict(bad, theirs, [torch.float32]) != "right"
    one = reference.float().clone()
    one[5] += 0.002
    assert "worst" in accuracy.verdict(accuracy.errors([one], [reference]), theirs, [torch.float32])
    exact = [accuracy.Error(0.0, 0.0)]
    assert accuracy.verdict(accuracy.errors([reference.float()], [reference]), exact, [torch.float32]) == "right"


def test_a_result_that_is_zero_is_judged_absolutely():
    reference = torch.full((64,), 1e-17, dtype=torch.float64)
    theirs = accuracy.errors([torch.full((64,), 1e-9)], [reference])
    assert accuracy.verdict(accuracy.errors([torch.full((64,), 3e-9)], [reference]), theirs, [torch.float32]) == "right"
    assert accuracy.verdict(accuracy.errors([torch.full((64,), 1e-4)], [reference]), theirs, [torch.float32]) != "right"


def test_peers_and_backward_results(folder):
    model, inputs = rows.build(str(folder / "A.py"), "cpu", batch=2)
    chosen = peers.peers("cpu", 4, {"channels_last", "compile"})
    assert [p.name for p in chosen if p.how == "eager"] == ["eager", "eager_channels_last"]
    assert not any(p.channels_last for p in peers.peers("cpu", 3, {"channels_last"}))
    results = peers.call_for(peers.EAGER, model, inputs, backward=True)()
    assert [tuple(t.shape) for t in results] == [(2, 6), (2, 4, 9, 9), (4, 6, 3, 3), (6,)]
    wide, wide_inputs = accuracy.clone64(model, inputs)
    reference = peers.call_for(peers.EAGER, wide, wide_inputs, backward=True)()
    assert all(e.rms < 1e-5 for e in accuracy.errors(results, reference))


def test_tuned_peers_come_last_and_only_known_ones_are_taken():
    asked = peers.asked_peers("compile,benchmark,autotune,graphs,channels_last")
    names = [p.name for p in peers.peers("cuda", 4, set(asked))]
    assert (
        {"autotune", "graphs", "autotune_channels_last", "graphs_channels_last"}
        < set(names)
        <= (set(table.NAMES) | {"transfuse", "transfuse_channels_last"})
    )
    assert names.index("autotune") > names.index("compile_channels_last")
    assert [p.name for p in peers.peers("cpu", 3, {"autotune", "graphs"})] == ["transfuse", "eager"]
    with pytest.raises(SystemExit, match="unknown peer 'autotuned'; known: compile, autotune, graphs"):
        peers.asked_peers("compile,autotuned")


def test_emitted_files_stand_beside_ours_with_the_parameters_of_the_model(folder, monkeypatch):
    asked = []

    def emit(path, request):
        asked.append((request.device, request.dtypes, request.sizes))
        return File(Path(path).read_text().replace("class Model(", "class ModelNew("), [])

    monkeypatch.setattr("transfuse.emit.emit", emit)
    path = str(folder / "A.py")
    chosen = peers.peers("cuda", 4, set(peers.asked_peers("emitted,channels_last")))
    files = [p for p in chosen if p.ours and not p.chooses]
    assert {p.name for p in files} == {"transfuse_emitted"} < set(table.FILES)
    model, inputs = rows.build(path, "cpu", seed=3, batch=2)
    model, inputs = model.half().eval(), [t.half() for t in inputs]
    for peer in files:
        module = peers.module_for(peer, model, inputs, path=path)
        assert type(module).__name__ == "ModelNew" and not module.training
        same = zip(peers.call_for(peer, module, inputs, False)(), peers.call_for(peers.EAGER, model, inputs, False)())
        assert all(torch.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in same)
    assert asked == [("cpu", ("float16",), ("2x4x9x9",))]


def test_a_file_has_its_share_of_our_time_and_is_never_counted_as_pytorchs():
    report = sample()
    report["rows"][0]["peers"]["transfuse_emitted"] = {"ms": 0.021, "verdict": "right"}
    report["rows"][1]["peers"]["transfuse_emitted"] = {"verdict": "result 0: rms error"}
    text = table.markdown(report)
    assert "| file |" in text and "| 0.021 (1.05) |" in text and "wrong: result 0" in text
    assert table.best_pytorch(report["rows"][0])[0] == "compile_channels_last"
    assert table.ours(report["rows"][0]) == ("transfuse", 0.02)


def test_a_limit_holds_for_code_that_catches_exceptions():
    started = time.monotonic()
    with pytest.raises(worker.OutOfTime, match=r"not ready after 0\.1 s"), worker.within(0.1):
        while time.monotonic() < started + 60:
            try:
                time.sleep(60)
            except Exception:
                pass
    assert time.monotonic() < started + 30


def test_a_compiler_that_does_not_end_costs_nobody_else_a_time(folder):
    never = "import time\ntorch.compile = lambda module, **_: time.sleep(600)\n"
    fails = "def refuse(module, **_):\n    raise ValueError('no such mode')\ntorch.compile = refuse\n"
    (folder / "f1.py").write_text(ROW + never)
    (folder / "d1.py").write_text(ROW + fails)
    out = folder / "out.json"
    driver.main(["--models-folder", str(folder), "--rows", "d1,f1", "--device", "cpu", "--peers", "compile", "--seconds", "0.1",
                 "--peer-limit", "0.5", "--rounds", "3", "--no-details", "--json", str(out)])  # fmt: skip
    report = json.loads(out.read_text())
    for result, why in zip(report["rows"], ("ValueError: no such mode", "OutOfTime: not ready after 0.5 s")):
        assert result["status"] == "ok" and table.wrong(result) is None and table.ours(result)[1] > 0
        assert table.lost(result) == [f"compile ({why})"] and f"without compile ({why})" in table.one_line(result)
    assert "PyTorch without a time: d1 compile (ValueError: no such mode); f1 compile" in table.markdown(report)


def test_channels_last_takes_parameters_of_other_ranks():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up = torch.nn.ConvTranspose3d(3, 4, 3)
            self.shift = torch.nn.Parameter(torch.rand(4, 1, 1, 1))

        def forward(self, x):
            return self.up(x) + self.shift

    x = torch.rand(2, 3, 4, 5, 6)
    peer = next(p for p in peers.peers("cpu", 5, {"channels_last"}) if p.name == "eager_channels_last")
    module = peers.module_for(peer, Scaled(), [x])
    assert module.up.weight.is_contiguous(memory_format=torch.channels_last_3d)
    assert peers.call_for(peer, module, [x], backward=False)()[0].shape == (2, 4, 6, 7, 8)


def test_interleaved_samples_every_call():
    calls = {"a": lambda: sum(range(1000)), "b": lambda: sum(range(10))}
    samples = timing.interleaved(calls, timing.Clock("cpu"), rounds=7, seconds=1.0)
    assert all(3 <= len(s) <= 7 for s in samples.values())
    assert timing.summary([0.001, 0.002, 0.003])["ms"] == pytest.approx(2.0)


def test_a_call_far_too_slow_is_not_repeated():
    class Told:  # a clock that is told what each call takes
        def once(self, call):
            return call()

    made = []
    calls = {"slow": lambda: made.append(1) or 100.0, "quick": lambda: 0.01}
    samples = timing.interleaved(calls, Told(), rounds=7, seconds=1.0)
    assert samples["slow"] == [100.0] and len(made) == 1 and len(samples["quick"]) == 7


def test_the_queue_is_filled_ahead_however_long_the_host_takes():
    clock, call = timing.Clock("cpu"), lambda: None
    assert clock.lead(call) == timing.LEAD
    clock.host[call] = 4 * timing.LEAD
    assert clock.lead(call) == 6 * timing.LEAD
    clock.host[call] = 1.0
    assert clock.lead(call) == timing.MOST_LEAD


def test_peak_memory_is_what_a_call_holds_at_once():
    x = torch.rand(1 << 18)
    assert timing.peak_bytes(lambda: (x + 1) * 2, "cpu") == pytest.approx(2 << 20, rel=1e-3)  # sum and product
    assert timing.peak_bytes(lambda: (x + 1).mul_(2), "cpu") == pytest.approx(1 << 20, rel=1e-3)


def test_a_row_that_dies_does_not_take_the_others_along(folder, capsys):
    (folder / "f1.py").write_text(ROW.replace("return self.up(x)", "import os; os._exit(7); return self.up(x)"))
    (folder / "d1.py").write_text("raise ValueError('no such thing')\n")
    out = folder / "out.json"
    driver.main(["--models-folder", str(folder), "--rows", "d1,f1,A", "--device", "cpu", "--peers", "none", "--seconds", "0.1",
                 "--rounds", "3", "--no-details", "--json", str(out)])  # fmt: skip
    report = json.loads(out.read_text())
    status = {r["id"]: r["status"] for r in report["rows"]}
    assert "no such thing" in status["d1"] and "died" in status["f1"] and status["A"] == "ok"
    assert table.ms(report["rows"][2], "eager") > 0
    assert "--rows d1,f1,A" in capsys.readouterr().out


def test_the_recorded_command_leaves_out_where_results_went():
    assert (
        record.command(["--rows", "A", "--json", "x/y.json", "--batch", "2", "--table=z"])
        == "transfuse bench --rows A --batch 2"
    )


def test_no_time_is_printed_for_a_wrong_result():
    report = sample()
    text = table.markdown(report)
    line = next(part for part in text.splitlines() if part.startswith("| **f1**"))
    assert "wrong: result 0: rms error 1.00e-01" in line
    assert "| **0.020** |" in text and "70×" in text and "transfuse bench --rows rows" in text
    assert "first result, median: transfuse 2.0 s, compile, channels_last 9.0 s." in text
    widths = {part.count("|") for part in text.splitlines() if part.startswith("|")}
    assert len(widths) == 1


def test_rates_are_of_the_chain_as_written():
    report = sample()
    head, _, *body = [part.split(" | ") for part in table.markdown(report).splitlines() if part.startswith("|")]
    row, facts = body[0], report["rows"][0]
    cell = {name.strip("| "): value for name, value in zip(head, row, strict=True)}
    took = table.ours(facts)[1]
    assert cell["TFLOP/s"] == table.number(facts["written"]["flops"] / took / 1e9)
    assert cell["TB/s"] == table.number(facts["written"]["bytes"] / took / 1e9)
    assert cell["time/floor"] == table.times(took / table.floor_ms(facts, report))


def test_rows_that_did_not_fit_are_named():
    report = sample() | {"asked": ["A", "D", "f9", "f4", "f1", "B"]}
    assert "left out by the time limit: f4, B." in table.markdown(report)
    assert table.summary(report)[0] == "4 of 6 (1 without a right result)"
    assert "left out" not in table.markdown(sample())


def test_the_best_pytorch_is_claimed_only_beside_torch_compile():
    report = sample()
    assert table.against(report["rows"]) == "the best PyTorch"
    for result in report["rows"]:
        result["peers"] = {n.replace("compile", "eager"): v for n, v in result["peers"].items()}
    assert table.against(report["rows"]) == "PyTorch, the better of eager and channels_last"
    for result in report["rows"]:
        result["peers"].pop("eager_channels_last", None)
    assert table.against(report["rows"]) == "eager PyTorch"


def test_a_roofline_needs_what_was_rewritten():
    bare = sample()
    for result in bare["rows"]:
        result.pop("flops_after", None)
    assert page.page([bare]).count("<svg") == 1  # the bars alone


def test_compare_sees_regressions_above_noise_alone():
    old, new = sample(), sample()
    assert compare.compare(old, new)[1] == 0
    new["rows"][1]["peers"]["transfuse"]["ms"] *= 1.02
    assert compare.compare(old, new)[1] == 0
    new["rows"][1]["peers"]["transfuse"]["ms"] *= 1.2
    new["rows"][0]["peers"]["transfuse"] = {"verdict": "result 0: rms"}
    text, worse = compare.compare(old, new)
    assert worse == 2 and "**slower**" in text and "**lost**: result 0: rms" in text


def test_page_is_self_contained_and_escaped():
    html = page.page([sample()])
    assert not re.search(r'(src|href)\s*=\s*"?(https?:)?//', html) and "<script" not in html and "@import" not in html
    assert "model A &lt;with a bracket &amp; more&gt;" in html and "<with a bracket" not in html
    for id in ("A", "D", "f9", "f1"):
        assert f'id="model-{id}"' in html
    assert html.count("<svg") == 2


def test_roofline_places_points_by_intensity():
    result = sample()["rows"][0]
    written, rewritten = figures.points(result)
    assert written == (pytest.approx(3.9e10 / (3 * 6.8e7)), pytest.approx(3.9e10 / 1.4e-3))
    assert rewritten == (pytest.approx(1.7e7 / 6.7e7), pytest.approx(1.7e7 / 0.02e-3))
    axis = figures.Axis(1, 100, 0, 200)
    assert axis(10) == pytest.approx(100) and axis.ticks() == pytest.approx([1, 10, 100])


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
@pytest.mark.parametrize("width", [1280, 390])
def test_page_opens_in_chromium(tmp_path, width):
    source = tmp_path / "report.html"
    seen = "document.documentElement.scrollWidth, innerWidth, document.querySelectorAll('svg').length"
    probe = f"<script>document.title = [{seen}].join(' ')</script>"
    source.write_text(page.page([copy.deepcopy(sample())]).replace("</body>", probe + "</body>"))
    run = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", f"--user-data-dir={tmp_path / 'profile'}",
         "--dump-dom", source.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    scroll, inner, figures_seen = map(int, re.search(r"<title>(\d+) (\d+) (\d+)</title>", run.stdout).groups())
    assert figures_seen == 2 and scroll <= inner  # nothing hangs over the edge; wide tables scroll inside their box


def test_report_command_writes_page_and_figures(tmp_path, capsys):
    data = tmp_path / "run.json"
    data.write_text(json.dumps(sample()))
    assert page.main([str(data), "-o", str(tmp_path / "r.html"), "--figures", str(tmp_path / "fig")]) == 0
    assert {p.name for p in Path(tmp_path / "fig").iterdir()} == {"roofline.svg", "bars.svg"}
    with pytest.raises(SystemExit, match="is not a result of transfuse bench"):
        page.main([str(tmp_path / "none.json")])


def test_everything_drawn_lies_on_its_canvas():
    many = sample()
    many["rows"][0]["peers"]["transfuse"]["ms"] = (
        0.001  # 1400 times faster: the longest bar and its words must still fit
    )
    for svg in (figures.bars(many), figures.roofline(many)):
        width = float(re.search(r'viewBox="0 0 (\d+)', svg)[1])
        for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', svg):
            assert float(x) + float(w) <= width - 60
        assert all(0 <= float(x) <= width for x in re.findall(r' c?x[12]?="(-?[\d.]+)"', svg))


NETWORK_FILE = """
import torch
from torch import nn
DEVICE = None
def tiny():
    made = nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2), nn.ReLU(), nn.Dropout(0.9 if DEVICE == "cpu" else 0.1))
    return made, (torch.randn(1, 3, 8, 8),)
def missing():
    import not_there_at_all
def broken():
    return nn.Linear(3, 4), {"input": torch.randn(1, 5)}
def killed():
    import os
    os.write(2, b"about to go\\n")
    os._exit(3)
NETWORKS = {"tiny": tiny, "missing": missing, "broken": broken, "killed": killed}
"""


@pytest.fixture
def network_file(tmp_path):
    (tmp_path / "networks.py").write_text(NETWORK_FILE)
    return tmp_path / "networks.py"


def test_networks_run_alone_in_processes(network_file, tmp_path, capsys):
    """What fails is named, what is not installed is skipped by name, and a second process finds what the first one left."""
    words = [
        "--models",
        str(network_file),
        "--device",
        "cpu",
        "--ways",
        "optimize,eager",
        "--seconds",
        "0.01",
        "--processor-time",
    ]
    assert networks.main([*words, "--json", str(tmp_path / "r.json")]) == 1
    text, rows = capsys.readouterr().out, json.loads((tmp_path / "r.json").read_text())["rows"]
    tiny, missing, failed, killed = rows
    assert killed["ways"]["eager"]["failed"] == "the process ended with 3; its last words: about to go"
    assert missing == {"id": "missing", "skipped": "not_there_at_all is not installed"}
    assert "mat1 and mat2" in failed["ways"]["eager"]["failed"]
    ours, eager = tiny["ways"]["optimize"], tiny["ways"]["eager"]
    assert ours["taken"] == 2 and ours["left"] == 0 and "region_0" in ours["report"]
    assert ours["second_process_s"] > 0 and "second_process_s" not in eager
    for found in (ours, eager):
        assert found["device_ms"] > 0 and found["wall_ms"] > 0 and found["peak_bytes"] >= 4 * 17 * 17 * 4
        assert 0 < found["error"] < 1e-6
    assert "Milliseconds of the processor" in text
    assert "| tiny |" in text and "Skipped: missing" in text and "**wrong**" not in text


def test_first_results_alone(network_file, tmp_path, capsys):
    words = ["--models", str(network_file), "--device", "cpu", "--ways", "optimize", "--only", "tiny", "--seconds", "0"]
    assert networks.main([*words, "--once", "--json", str(tmp_path / "r.json")]) == 0
    assert "| tiny | not timed |" in capsys.readouterr().out
    (tiny,) = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert tiny["ways"]["optimize"]["first_s"] > 0 and "second_process_s" not in tiny["ways"]["optimize"]


def test_inputs_that_ask_for_gradients_get_them():
    def make():
        return torch.nn.Conv2d(2, 3, 3), (torch.randn(1, 2, 5, 5).requires_grad_(),)

    model, (x,) = network.built(make, "cpu", torch.float64)
    result, *gradients = network.call_of(model, (x,), backward=True)()
    assert [g.shape for g in gradients] == [model.weight.shape, model.bias.shape, x.shape]
    expected = torch.nn.functional.conv_transpose2d(torch.ones_like(result), model.weight)
    assert torch.allclose(gradients[-1], expected) and x.grad is None


def test_networks_are_built_alike_in_every_process(network_file):
    """Dropouts, which every way to run a network would draw otherwise, drop nothing."""
    make = network.load(network_file, "cpu")["tiny"]
    assert make()[0][2].p == 0.9 and network.load(network_file, "cuda")["tiny"]()[0][2].p == 0.1
    (one, (x,)), (two, (y,)) = (
        network.built(make, "cpu", torch.float32),
        network.built(make, "cpu", torch.float64, True),
    )
    assert torch.equal(one[0].weight.double(), two[0].weight) and torch.equal(x.double(), y)
    assert y.is_contiguous(memory_format=torch.channels_last) and two[0].weight.dtype is torch.float64
    step = network.call_of(one.train(), (x,), backward=True)
    assert torch.equal(one(x), one[0](x).relu()) and len(step()) == 3 and all(p.grad is None for p in one.parameters())


def test_a_file_of_networks_says_which_are_behind():
    def row(name, ours, theirs, error=1e-7):
        found = {"wall_ms": 1.0, "peak_bytes": 1e6, "first_s": 1.0, "error": 1e-7}
        ways = {"eager": {**found, "device_ms": 9.0}, "compile": {**found, "device_ms": theirs}}
        return {
            "id": name,
            "ways": ways | {"transfuse": {**found, "device_ms": ours, "error": error, "taken": 3, "left": 1}},
        }

    report = {"precision": "fp32", "backward": False, "device_kind": "cpu", "commit": "c", "date": "d", "command": "x"}
    report |= {
        "versions": {"torch": "2"},
        "rows": [row("ahead", 1.0, 2.0), row("even", 1.02, 1.0), row("behind", 2.0, 1.0, 1.0)],
    }
    text = networks.markdown(report)
    assert "**2.00×**" in text and "more than 3 %: behind." in text and text.count("**wrong**") == 1


def test_public_networks_are_listed():
    """Their packages need not be installed."""
    made = network.load(Path(__file__).resolve().parents[2] / "bench" / "networks.py")
    model, inputs = made["dcgan"]()
    assert len(made) > 40 and model(*inputs).shape == (8, 3, 64, 64)
