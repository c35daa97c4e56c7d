"""Products on a real GPU: ``pytest -m gpu tests/gpu_runtime`` where there is one, with torch."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import OPERATOR_REL, rounded_operator_error

import moonpoly
from moonpoly.error import InputError

pytestmark = pytest.mark.gpu

DTYPE = "float16"


def random(torch, *shape):
    return torch.empty(shape, dtype=getattr(torch, DTYPE), device="cuda").uniform_(-1, 1)


def check(a, b, out):
    host = [np.asarray(x.cpu().numpy()) for x in (out, a, b)]
    assert rounded_operator_error(*host, DTYPE) <= OPERATOR_REL[DTYPE]


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (63, 65, 129), (500, 768, 3072), (16, 16, 20_000), (1, 1009, 512)], ids=str
)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_torch_tensors(torch, shape, transposed):
    m, n, k = shape
    a = random(torch, m, k)
    b = random(torch, n, k).t() if transposed else random(torch, k, n)
    out = torch.full((m, n), float("nan"), dtype=a.dtype, device="cuda")
    moonpoly.matmul(a, b, out)
    check(a, b, out)


def test_views_are_read_and_written_in_place(torch):
    whole = random(torch, 4, 70, 136)
    a, b = whole[:, 3:, 5:106], random(torch, 90, 101).t()
    room = torch.zeros(4, 67, 123, dtype=a.dtype, device="cuda")
    out = room[:, :, 11:101]
    # Rows of three dimensions are a constant stride apart within one matrix only.
    with pytest.raises(InputError, match="leading dimensions"):
        moonpoly.matmul(a, b, out)
    moonpoly.matmul(a[1], b, out[1])
    check(a[1], b, out[1])
    room[1, :, 11:101] = 0
    assert not room.any()


def test_work_follows_the_stream_of_the_caller(torch):
    a, b = random(torch, 256, 512), random(torch, 512, 512)
    out = torch.empty(256, 512, dtype=a.dtype, device="cuda")
    moonpoly.matmul(a, b, out)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        a.fill_(1.0)
        b.fill_(1.0)
        moonpoly.matmul(a, b, out, overlap=True)
        # Read on the same stream, which nothing else waits for.
        assert float(out.float().sum()) == 256 * 512 * 512


@pytest.mark.parametrize("overlap", [False, True])
def test_a_graph_replays_products_on_new_values(torch, overlap):
    a, b = random(torch, 200, 520), random(torch, 264, 520).t()
    outs = [torch.empty(200, 264, dtype=a.dtype, device="cuda") for _ in range(3)]
    moonpoly.matmul(a, b, outs[0], overlap=overlap)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for out in outs:
            moonpoly.matmul(a, b, out, overlap=overlap)
    a.uniform_(-1, 1)
    graph.replay()
    torch.cuda.synchronize()
    for out in outs:
        check(a, b, out)


def test_the_same_call_gives_the_same_bits(torch):
    for m, n, k in ((16, 16, 50_000), (333, 77, 4096), (1024, 1024, 1000)):
        a, b = random(torch, m, k), random(torch, n, k).t()
        outs = [torch.empty(m, n, dtype=a.dtype, device="cuda") for _ in range(8)]
        for out in outs:
            moonpoly.matmul(a, b, out)
        assert all(torch.equal(out, outs[0]) for out in outs)


@pytest.mark.slow
def test_two_thousand_shapes_in_every_layout_and_alignment(torch):
    from moonpoly.benchmarks.gpu import validity

    summary = validity.main(target="cuda-sm90a", dtype=DTYPE)
    assert summary["valid"] == summary["total"] >= 2_000
