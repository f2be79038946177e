"""A made-up result of `transfuse bench --json`, for tests of what is drawn from it. The numbers are nobody's measurements."""


def peer(ms, **more):
    return {"ms": ms, "q1": ms * 0.99, "q3": ms * 1.01, "samples": 30, **more}


def row(id, eager, best, mine, flops, bytes_, flops_after, bytes_after, **more):
    error = [{"rms": 1e-4, "worst": 2e-4}]
    return {
        "id": id,
        "title": f"model {id} <with a bracket & more>",
        "precision": "tf32",
        "backward": False,
        "status": "ok",
        "inputs": [[16, 64, 128, 128]],
        "parameters": 1000,
        "training": True,
        "written": {"flops": flops, "bytes": bytes_},
        "flops_before": flops,
        "bytes_before": 3 * bytes_,
        "flops_after": flops_after,
        "bytes_after": bytes_after,
        "derivation": "graph {\n  %x = input f32[1,2]\n}\ncollapse: mean over [2,3] moves before conv_transpose\n",
        "plan": "moments pass\n  reads %x",
        "peers": {
            "eager": peer(eager, error=error, peak_bytes=600 << 20, launches=5, host_us=60.0),
            "compile_channels_last": peer(best, first_s=9.0),
            "transfuse": peer(
                mine,
                error=error,
                verdict="right",
                peak_bytes=1 << 20,
                launches=1,
                host_us=15.0,
                report="all",
                first_s=2.0,
            ),
        },
    } | more


def sample():
    return {
        "commit": "0123456789ab",
        "dirty": False,
        "date": "2026-01-01 00:00 UTC",
        "command": "transfuse bench --rows rows",
        "versions": {"python": "3.11", "torch": "2.11.0", "cuda": "13.0", "cudnn": 91900},
        "device": "a made-up device",
        "device_kind": "cuda",
        "peaks": {"tf32": {"flops": 4e14, "bandwidth": 4e12, "source": "made up"}},
        "rows": [
            row("A", 1.4, 0.4, 0.02, 3.9e10, 6.8e7, 1.7e7, 6.7e7),
            row("D", 2.4, 1.7, 1.3, 5.1e11, 1.6e9, 5.1e11, 1.6e9),
            row("f9", 5.4, 3.1, 0.05, 4e9, 1.4e8, 1e9, 1.4e8),
            row(
                "f1", 10.0, 2.4, 1.0, 1e10, 2.6e9, 1e10, 2.6e9,
                peers={
                    "eager": peer(10.0),
                    "transfuse": {"verdict": "result 0: rms error 1.00e-01 against float64, PyTorch's own is 1.00e-04"},
                },
            ),
        ],
    }  # fmt: skip
