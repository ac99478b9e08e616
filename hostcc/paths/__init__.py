"""Which ways lead to a peer, which source port takes which, and moving flows between them."""
