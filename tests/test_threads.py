"""What runs compute with, and that nobody else's settings are lost over it."""

import torch

from understudy.threads import Computing, one_thread


def test_a_card_repeats_its_bits_in_full_precision_and_is_left_as_it_was() -> None:
    before = Computing.now()
    theirs = Computing(2, deterministic=False, benchmark=True, tf32=True)
    try:
        theirs.begin()
        with one_thread():
            cudnn = torch.backends.cudnn
            assert torch.get_num_threads() == 1
            assert (cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32) == (True, False, False)
        assert Computing.now() == theirs
    finally:
        before.begin()
