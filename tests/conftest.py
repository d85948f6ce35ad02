import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """As in a run: two threads give other bits, and tests share the machine's cores."""
    torch.set_num_threads(1)
