"""What is measured on a GPU, as far as a machine without one can tell."""

import os
import resource
import sys
import threading
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from benchmarks import gpu, wrk
from benchmarks.__main__ import main
from benchmarks.choice import OURS, chosen_loads, chosen_programs
from benchmarks.comparison import Bench, Comparison, Run
from benchmarks.errors import BenchmarkError
from benchmarks.limit import repeated
from benchmarks.loads import GPU_LOADS, Closed
from benchmarks.measure import Meter, Timing
from benchmarks.processes import ProcessTree
from benchmarks.servers import Program, Server, serve
from benchmarks.texts import own_texts
from benchmarks.wrk import Figures
from model.backends.eager import CudaBackend
from service.http.connections import plan_capacity
from service.settings import Settings

# Writes down how it is asked, and says what a file holds.
NVIDIA_SMI = """#!/bin/sh
echo "$*" >>"$0.asked"
cat "$0.says"
test ! -e "$0.fails"
"""
UUID = "0a1b2c3d-0000-1111-2222-333344445555"


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stub on PATH, which says 40."""
    stub = tmp_path / "bin" / "nvidia-smi"
    stub.parent.mkdir()
    stub.write_text(NVIDIA_SMI, encoding="utf-8")
    stub.chmod(0o755)
    Path(f"{stub}.says").write_text("40\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{stub.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda number: {0: Namespace(uuid=UUID)}[number]
    )
    return stub


@pytest.fixture
def _one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    python = tmp_path / "litserve" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return tmp_path


def test_without_a_gpu_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(Bench, "run", lambda *_: pytest.fail("it started"))

    assert main(["--device", "cuda"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "benchmark: --device cuda was asked for, but torch finds 0 CUDA devices: use --device cpu, "
        "or install torch with CUDA (make gpu-benchmark TORCH=cuda)\n"
    )


@pytest.mark.parametrize(("has_bfloat16", "half"), [(True, "bf16"), (False, "fp16")])
def test_on_a_gpu_are_measured_those_that_compute_there(
    peers: Path, monkeypatch: pytest.MonkeyPatch, *, has_bfloat16: bool, half: str
) -> None:
    monkeypatch.setattr(
        "benchmarks.choice.computes_bfloat16",
        lambda device: {"cuda": has_bfloat16}[device.type],
    )

    chosen = chosen_programs([], peers, "cuda")

    names = [program.name for program in chosen]
    assert names == ["headlight", "pipeline", "litserve", f"litserve-{half}"]
    assert all(program.sees_gpu for program in chosen)
    assert all(program.options[:2] == ("--device", "cuda") for program in chosen)
    assert chosen[0].alone == ("benchmarks.limit", "--device", "cuda")
    assert not any(program.sees_gpu for program in chosen_programs(["pipeline"], peers))


def test_a_type_that_is_left_out_is_measured_when_asked_for(peers: Path) -> None:
    chosen = chosen_programs(["litserve-fp16"], peers, "cuda")

    assert [program.name for program in chosen] == ["headlight", "litserve-fp16"]
    assert chosen[1].options == ("--device", "cuda", "--dtype", "float16")


@pytest.mark.parametrize(
    ("device", "name", "others"),
    [
        ("cuda", "bentoml", "pipeline, litserve, litserve-bf16, litserve-fp16"),
        (
            "cpu",
            "litserve-fp16",
            "headlight-int8, pipeline, litserve, litserve-bf16, bentoml, openvino-bf16, "
            "openvino-int8, onnxruntime-int8",
        ),
    ],
)
def test_a_server_of_the_other_device_is_refused(
    peers: Path, device: str, name: str, others: str
) -> None:
    with pytest.raises(BenchmarkError) as caught:
        chosen_programs([name], peers, device)

    assert str(caught.value) == (
        f"--servers {name}: is not measured with --device {device}: choose of {others}"
    )


def test_a_load_of_the_other_device_is_refused() -> None:
    with pytest.raises(BenchmarkError) as caught:
        chosen_loads(["short beside long"], "cuda")

    assert str(caught.value).startswith(
        "--loads short beside long: is not measured with --device cuda: choose of 1 sentence, "
    )


def test_the_loads_of_a_gpu() -> None:
    assert chosen_loads([], "cuda") == list(GPU_LOADS)
    found = [load for load in GPU_LOADS if isinstance(load, Closed)]
    assert [(load.connections, load.sentences, load.route) for load in found] == [
        (1, 1, "predict"),
        (64, 1, "predict"),
        (1024, 1, "predict"),
        (8, 1, "attention"),
        (8, 256, "predict"),
    ]
    # Each within the limits of the service, of which one is raised, and of the open files.
    assert max(load.connections for load in found) < gpu.MOST_CONNECTIONS
    assert max(load.sentences for load in found) <= Settings.model_fields["max_sentences"].default
    assert plan_capacity(gpu.MOST_CONNECTIONS, gpu._OPEN_FILES).connections == gpu.MOST_CONNECTIONS
    ours, *_ = gpu.programs(Path())
    assert ours.options[2:] == ("--max-connections", str(gpu.MOST_CONNECTIONS))


@pytest.mark.usefixtures("_one_gpu")
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((1024, 8192), [(4096, 8192)]),
        ((1024, resource.RLIM_INFINITY), [(4096, resource.RLIM_INFINITY)]),
        ((8192, 8192), []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), []),
    ],
)
def test_the_limit_of_open_files_is_raised_for_the_connections(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: raised.append(given))

    gpu.check()

    assert raised == expected


@pytest.mark.usefixtures("_one_gpu")
def test_a_limit_of_open_files_that_cannot_be_raised_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 2048))

    with pytest.raises(BenchmarkError) as caught:
        gpu.check()

    assert str(caught.value) == (
        "a process may open 2048 files, and the loads on a GPU need 4096: raise the limit with "
        "ulimit -Hn 4096"
    )


def test_the_model_alone_has_texts_for_whole_passes() -> None:
    texts = ["ab", "cde"]

    assert repeated(texts, 12, length=len) == texts * 3
    assert repeated(texts, 5, length=len) == texts


def samples_of(stub: Path, *, count: int) -> list[float]:
    """Samples until the stub has been asked so often."""
    asked = Path(f"{stub}.asked")
    until = time.monotonic() + 60
    with gpu.watching(gpu.query()) as samples:
        while not asked.exists() or len(asked.read_text().splitlines()) < count:
            assert time.monotonic() < until
            time.sleep(0.01)
    return samples


def test_the_busy_share_is_sampled_until_the_block_ends(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_BETWEEN_SECONDS", 0.01)
    threads = threading.active_count()

    samples = samples_of(nvidia_smi, count=3)

    assert threading.active_count() == threads
    asked = Path(f"{nvidia_smi}.asked").read_text(encoding="utf-8").splitlines()
    assert len(samples) == len(asked) >= 3
    assert set(samples) == {0.4}
    assert gpu.mean([0.4, 0.8]) == pytest.approx(0.6)
    assert set(asked) == {
        f"--id=GPU-{UUID} --query-gpu=utilization.gpu --format=csv,noheader,nounits"
    }


@pytest.mark.parametrize(("says", "fails"), [("[N/A]\n", False), ("", False), ("40\n", True)])
def test_what_nvidia_smi_does_not_know_is_unknown(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch, says: str, *, fails: bool
) -> None:
    monkeypatch.setattr(gpu, "_BETWEEN_SECONDS", 0.01)
    Path(f"{nvidia_smi}.says").write_text(says, encoding="utf-8")
    if fails:
        Path(f"{nvidia_smi}.fails").touch()

    assert gpu.mean(samples_of(nvidia_smi, count=2)) is None


def test_without_nvidia_smi_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    threads = threading.active_count()

    with gpu.watching(gpu.query()) as samples:
        assert threading.active_count() == threads

    assert gpu.mean(samples) is None


def test_only_the_load_is_watched_and_not_its_warm_up(
    nvidia_smi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_BETWEEN_SECONDS", 0.01)
    asked = Path(f"{nvidia_smi}.asked")

    def read(*_: object) -> Figures:
        if not told:
            told.append("warm-up")
            time.sleep(0.1)
            assert not asked.exists()
            return Figures(1.0, 0.1, 0.1, 100)
        until = time.monotonic() + 60
        while not asked.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return Figures(2.0, 0.1, 0.1, 100)

    told: list[str] = []
    monkeypatch.setattr(wrk, "read", read)
    monkeypatch.setattr(wrk, "running", lambda *_, **__: nullcontext())
    monkeypatch.setattr(Server, "settle", lambda _: None)
    server = Server(1, 0.0, ProcessTree(os.getpid()))

    with ThreadPoolExecutor(1) as client:
        found = Meter(
            own_texts(),
            folder=tmp_path,
            timing=Timing(1, 1, 1),
            client=client,
            busy=gpu.query(),
        ).measure(Closed("load", 2), server, number=1, before={})

    assert (found.figures.rate, found.busy) == (2.0, 0.4)


@pytest.mark.usefixtures("_one_gpu")
def test_the_command_measures_with_what_a_gpu_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    benches: list[Bench] = []

    def run(bench: Bench, _programs: object, loads: object) -> Comparison:
        assert loads == list(GPU_LOADS)
        benches.append(bench)
        return Comparison((), {OURS.name: [Run(2.0, None, {})]}, {})

    monkeypatch.setattr(gpu, "check", lambda: None)
    monkeypatch.setattr(wrk, "check_installed", lambda: None)
    monkeypatch.setattr(Bench, "run", run)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "GPU 9")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))

    assert main(["--device", "cuda", "--servers", "pipeline"]) == 0

    (bench,) = benches
    assert bench._max_batch_tokens == CudaBackend.default_batch_tokens
    # Two loads of a GPU never share a text: it answers more of them.
    assert bench._timing == Timing(3, 2.0, 5.0, texts=1_000_000)
    out, err = capsys.readouterr()
    assert ", GPU 9; headlight in bfloat16; " in out
    assert err == "nvidia-smi is not installed: how busy the GPU is stays unknown\n"


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_server_on_a_gpu_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    quick = ("--label", "good")
    programs = [
        Program("cpu", "tests.benchmarks.quick_server", quick),
        Program("gpu", "tests.benchmarks.quick_server", quick, sees_gpu=True),
    ]

    seen = []
    for program in programs:
        with serve(program, tmp_path, tmp_path) as server:
            content = Path(f"/proc/{server.processes.first}/environ").read_bytes()
            variables = dict(part.split(b"=", 1) for part in content.split(b"\0") if part)
            seen.append(variables[b"CUDA_VISIBLE_DEVICES"])

    assert seen == [b"", b"3"]
