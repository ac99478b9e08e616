"""The measurements behind the claims: `hostcc bench NAME`, one file per benchmark."""
