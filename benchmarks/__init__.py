"""The measurements behind the claims: `python -m benchmarks NAME`, one file per benchmark."""
