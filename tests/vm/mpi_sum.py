"""In the guest: one process of an MPI job that sums vectors, by OpenMPI's own library.

It knows nothing of hostcc: no header and no binding is needed, the library's symbols are enough.
`python -m tests.vm.mpi_sum ITERATIONS` prints its rank; status 1 when a sum was wrong.
"""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np

LENGTH = 16384


def main() -> None:
    library = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)

    def handle(name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, f"ompi_mpi_{name}")))

    world, whole, plus = handle("comm_world"), handle("int64_t"), handle("op_sum")
    library.MPI_Init(None, None)
    rank, size = ctypes.c_int(), ctypes.c_int()
    library.MPI_Comm_rank(world, ctypes.byref(rank))
    library.MPI_Comm_size(world, ctypes.byref(size))
    rngs = [np.random.default_rng(one) for one in range(size.value)]
    good = True
    for _ in range(int(sys.argv[1])):
        vectors = [rng.integers(0, 1 << 40, LENGTH) for rng in rngs]
        total = np.zeros(LENGTH, np.int64)
        failed = library.MPI_Allreduce(
            ctypes.c_void_p(vectors[rank.value].ctypes.data), ctypes.c_void_p(total.ctypes.data),
            LENGTH, whole, plus, world,
        )  # fmt: skip
        good &= not failed and bool((total == np.sum(vectors, axis=0)).all())
    library.MPI_Finalize()
    print(json.dumps({"rank": rank.value, "size": size.value}), flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
