"""Every change of the host: journalled, shown before it is made, verified and undone."""
