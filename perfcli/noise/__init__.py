"""``perfcli noise``: pairs of identical variants, and what people read of them."""
