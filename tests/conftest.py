import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """As in a run: two threads give other bits, and tests share the machine's cores."""
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Federations of real processes mostly wait: begun first, they end while the rest goes on beside them."""
    items.sort(key=lambda item: item.path.name not in ("test_faults.py", "test_same_bits.py"))
