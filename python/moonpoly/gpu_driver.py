"""The CUDA driver through ctypes: what tuning needs to load, launch and time a kernel.

Nothing but the driver's own library is needed, and it is opened on first use. Running products is
the C++ library's; here single launches are timed before there is an artifact.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from moonpoly.error import TargetError

_SUCCESS = 0
_ATTRIBUTE_MAJOR, _ATTRIBUTE_MINOR, _ATTRIBUTE_NUM_SMS, _ATTRIBUTE_L2_BYTES = 75, 76, 16, 38
_ATTRIBUTE_SHARED_BYTES = 81  # of a multiprocessor
_DYNAMIC_SHARED_BYTES = 8
_LAUNCH_CLUSTER, _LAUNCH_OVERLAP = 4, 6
_CAPTURE_RELAXED = 2
# Bytes are copied as they are; float32 is rounded to what tensor cores read of it.
_TYPE_OF_ITEM = {"float16": 6, "bfloat16": 9, "tf32": 11, "float8_e4m3fn": 0, "int8": 0}
_SWIZZLE_128, _PROMOTE_128 = 3, 2


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("num_attributes", ctypes.c_uint),
    )


def capability() -> str | None:
    """Return the compute capability of the first GPU, such as ``"90"``, or None without one."""
    try:
        driver = _library()
    except TargetError:
        return None
    count = ctypes.c_int()
    if driver.cuInit(0) != _SUCCESS or driver.cuDeviceGetCount(ctypes.byref(count)) != _SUCCESS:
        return None
    if count.value == 0:
        return None
    return f"{_attribute(_ATTRIBUTE_MAJOR)}{_attribute(_ATTRIBUTE_MINOR)}"


class Device:
    """The first GPU, its primary context current in this thread.

    Raises
    ------
    TargetError
        If there is none, or the driver refuses.
    """

    def __init__(self) -> None:
        self._driver = _library()
        self._check(self._driver.cuInit(0))
        context = ctypes.c_void_p()
        self._check(self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self._check(self._driver.cuCtxSetCurrent(context))
        self._stream = ctypes.c_void_p()
        self._check(self._driver.cuStreamCreate(ctypes.byref(self._stream), 1))
        self.num_sms = _attribute(_ATTRIBUTE_NUM_SMS)
        self.l2_bytes = _attribute(_ATTRIBUTE_L2_BYTES)
        self.shared_bytes = _attribute(_ATTRIBUTE_SHARED_BYTES)
        name = ctypes.create_string_buffer(128)
        self._check(self._driver.cuDeviceGetName(name, len(name), 0))
        self.name = name.value.decode()

    def allocate(self, num_bytes: int) -> int:
        """Return the address of new memory on the device; it is never given back."""
        address = ctypes.c_uint64()
        self._check(self._driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(num_bytes)))
        return address.value

    def write(self, address: int, data: bytes) -> None:
        """Copy ``data`` to the device; it is there when this returns."""
        self._check(
            self._driver.cuMemcpyHtoD_v2(ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))
        )
        # The driver may return with the data still on its way, which launches on a stream of their
        # own would overtake.
        self.synchronize()

    def read(self, address: int, num_bytes: int) -> bytes:
        """Return a copy of memory of the device, after all work on it."""
        self.synchronize()
        data = ctypes.create_string_buffer(num_bytes)
        self._check(
            self._driver.cuMemcpyDtoH_v2(data, ctypes.c_uint64(address), ctypes.c_size_t(num_bytes))
        )
        return data.raw

    def synchronize(self) -> None:
        """Wait for all work."""
        self._check(self._driver.cuCtxSynchronize())

    def load(self, image: bytes, symbol: str, shared_bytes: int) -> ctypes.c_void_p:
        """Return a function of a compiled image, allowed ``shared_bytes`` of shared memory."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(module), image))
        self._check(
            self._driver.cuModuleGetFunction(ctypes.byref(function), module, symbol.encode())
        )
        self._check(self._driver.cuFuncSetAttribute(function, _DYNAMIC_SHARED_BYTES, shared_bytes))
        return function

    def resident_blocks(self, function: ctypes.c_void_p, threads: int, shared_bytes: int) -> int:
        """Return how many blocks of a function one multiprocessor holds."""
        count = ctypes.c_int()
        self._check(
            self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(count), function, threads, ctypes.c_size_t(shared_bytes)
            )
        )
        return count.value

    def resident_clusters(
        self, function: ctypes.c_void_p, cluster: int, threads: int, shared_bytes: int
    ) -> int:
        """Return how many clusters of so many blocks of a function the GPU holds at once."""
        attribute = _LaunchAttribute(id=_LAUNCH_CLUSTER)
        attribute.value[:3] = [cluster, 1, 1]
        config = _LaunchConfig(
            grid=(cluster * self.num_sms, 1, 1),
            block=(threads, 1, 1),
            shared_bytes=shared_bytes,
            stream=self._stream,
            attributes=ctypes.addressof(attribute),
            num_attributes=1,
        )
        count = ctypes.c_int()
        self._check(self._driver.cuFuncSetAttribute(function, _DYNAMIC_SHARED_BYTES, shared_bytes))
        self._check(
            self._driver.cuOccupancyMaxActiveClusters(
                ctypes.byref(count), function, ctypes.byref(config)
            )
        )
        return count.value

    def tensor_map(
        self,
        dtype: str,
        address: int,
        items: int,
        rows: int,
        row_bytes: int,
        box: tuple[int, int],
        *,
        swizzled: bool,
    ) -> ctypes.Array[ctypes.c_char]:
        """Return the map of ``rows`` rows of ``items`` contiguous items, copied in boxes."""
        memory = ctypes.create_string_buffer(192)
        start = -ctypes.addressof(memory) % 64
        result = (ctypes.c_char * 128).from_buffer(memory, start)
        self._check(
            self._driver.cuTensorMapEncodeTiled(
                result,
                _TYPE_OF_ITEM[dtype],
                2,
                ctypes.c_void_p(address),
                (ctypes.c_uint64 * 2)(items, rows),
                (ctypes.c_uint64 * 1)(row_bytes),
                (ctypes.c_uint32 * 2)(*box),
                (ctypes.c_uint32 * 2)(1, 1),
                0,
                _SWIZZLE_128 if swizzled else 0,
                _PROMOTE_128,
                0,
            )
        )
        return result

    def launcher(
        self,
        function: ctypes.c_void_p,
        arguments: Sequence[Any],
        *,
        grid: int,
        threads: int,
        shared_bytes: int,
        cluster: int,
        overlap: bool,
    ) -> Callable[[], None]:
        """Return a function that launches once; the arguments are ctypes values."""
        attributes = (_LaunchAttribute * 2)()
        count = 0
        if cluster > 1:
            attributes[count].id = _LAUNCH_CLUSTER
            attributes[count].value[:3] = [cluster, 1, 1]
            count += 1
        if overlap:
            attributes[count].id = _LAUNCH_OVERLAP
            attributes[count].value[0] = 1
            count += 1
        config = _LaunchConfig(
            grid=(grid, 1, 1),
            block=(threads, 1, 1),
            shared_bytes=shared_bytes,
            stream=self._stream,
            attributes=ctypes.addressof(attributes),
            num_attributes=count,
        )
        addresses = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))

        def launch(_keep: tuple[Any, ...] = (attributes, arguments)) -> None:
            self._check(
                self._driver.cuLaunchKernelEx(ctypes.byref(config), function, addresses, None)
            )

        return launch

    def graph_us(self, launch: Callable[[], None], calls: int, replays: int) -> float:
        """Return the median microseconds of a call in a graph of ``calls``, replayed."""
        driver, stream = self._driver, self._stream
        launch()
        self.synchronize()
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(driver.cuStreamBeginCapture_v2(stream, _CAPTURE_RELAXED))
        for _ in range(calls):
            launch()
        self._check(driver.cuStreamEndCapture(stream, ctypes.byref(graph)))
        self._check(
            driver.cuGraphInstantiateWithFlags(
                ctypes.byref(executable), graph, ctypes.c_ulonglong(0)
            )
        )
        events = [ctypes.c_void_p() for _ in range(replays + 1)]
        for event in events:
            self._check(driver.cuEventCreate(ctypes.byref(event), 0))
        self._check(driver.cuGraphLaunch(executable, stream))
        for index, event in enumerate(events):
            if index:
                self._check(driver.cuGraphLaunch(executable, stream))
            self._check(driver.cuEventRecord(event, stream))
        self.synchronize()
        times = sorted(self._elapsed_us(a, b) for a, b in pairwise(events))
        for event in events:
            self._check(driver.cuEventDestroy_v2(event))
        self._check(driver.cuGraphExecDestroy(executable))
        self._check(driver.cuGraphDestroy(graph))
        return times[len(times) // 2] / calls

    def _elapsed_us(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        milliseconds = ctypes.c_float()
        elapsed = getattr(self._driver, "cuEventElapsedTime_v2", self._driver.cuEventElapsedTime)
        self._check(elapsed(ctypes.byref(milliseconds), start, end))
        return milliseconds.value * 1e3

    def _check(self, code: int) -> None:
        if code != _SUCCESS:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            reason = (text.value or b"unknown error").decode()
            raise TargetError(f"the CUDA driver refused: {reason} ({code})")


@cache
def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as err:
        raise TargetError("this machine has no CUDA driver; run on one with an NVIDIA GPU") from err


def _attribute(number: int) -> int:
    value = ctypes.c_int()
    code = _library().cuDeviceGetAttribute(ctypes.byref(value), number, 0)
    if code != _SUCCESS:
        raise TargetError(f"the CUDA driver can't tell attribute {number} of the GPU ({code})")
    return value.value
