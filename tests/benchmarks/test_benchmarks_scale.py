"""The arithmetic behind docs/scale.md."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.link_costs import idle_rate
from benchmarks.round_simulated import MethodFamily, World, queued, simulate
from benchmarks.scale import families, write_into
from benchmarks.server_costs import MB, ServerCosts, seconds_of_a_sum

FREE = ServerCosts(*[0.0] * 9)
STILL = World(sites=4, site_down=np.inf, site_up=np.inf, work=10.0, spread=0.0, poll=0.0)


def test_a_queue_serves_one_after_another_in_the_order_of_arrival() -> None:
    # 2 s each: the one at 0 is done at 2, the one at 1 waits until 4, the one at 9 finds nobody there.
    assert queued(np.array([9.0, 0.0, 1.0]), 2.0).tolist() == [11.0, 2.0, 4.0]


def test_a_round_without_queues_is_a_sites_work_and_its_links() -> None:
    world = World(sites=4, server_link=np.inf, site_down=5 * MB, site_up=2 * MB, work=10.0, spread=0.0, poll=0.0)
    found = simulate(MethodFamily("sums", up=4 * MB, down=10 * MB), world, FREE)
    assert (found.unhindered, found.flat, found.tree) == pytest.approx((14.0, 14.0, 14.0))  # 10/5 + 10 + 4/2


def test_one_server_adds_up_all_replies_and_a_tree_those_of_its_branch_and_of_the_branches() -> None:
    # No time on links: four replies arrive at 10 s and take 3 s each; in a tree two by two, then two sums.
    costs = ServerCosts(3.0, *[0.0] * 8)
    family = MethodFamily("sums", up=0.0, down=0.0)
    found = simulate(family, STILL, costs)
    assert (found.unhindered, found.flat, found.tree) == pytest.approx((10.0, 22.0, 22.0))
    # A hundred: 300 s in one server; in a tree of ten by ten, 30 and 30.
    many = World(**{**vars(STILL), "sites": 100})
    assert (simulate(family, many, costs).flat, simulate(family, many, costs).tree) == pytest.approx((310.0, 70.0))


def test_what_is_gathered_is_as_large_at_the_top_of_a_tree() -> None:
    # 1 s per MB: a hundred replies of 1 MB are 100 s in one server; in a tree ten, and then ten of 10 MB.
    costs, many = ServerCosts(0.0, 1.0, *[0.0] * 7), World(**{**vars(STILL), "sites": 100, "server_link": np.inf})
    gathered = simulate(MethodFamily("images", up=MB, down=0.0, summed=False), many, costs)
    summed = simulate(MethodFamily("sums", up=MB, down=0.0), many, costs)
    assert (gathered.flat, gathered.tree) == pytest.approx((110.0, 120.0))
    assert (summed.flat, summed.tree) == pytest.approx((110.0, 30.0))


def test_a_servers_round_is_measured_through_its_own_code(tmp_path: Path) -> None:
    assert seconds_of_a_sum(5, 100, tmp_path) > 0
    assert len((tmp_path / "releases.jsonl").read_text().splitlines()) == 5


def test_sizes_are_those_of_the_papers() -> None:
    sizes = {family.name: family for family in families()}
    assert sizes["FedAvg: ConvNet"].up == 4 * 320_010  # table 2 of FedDM: 3,200,100 floats for ten clients
    assert sizes["SCAFFOLD: ConvNet"].up == 2 * sizes["FedAvg: ConvNet"].up
    assert not sizes["FedDM: 10 images per class"].summed


def test_a_page_gets_each_table_between_its_marks() -> None:
    page = "# A\n\n<!-- measured: one -->\nold\n<!-- end -->\n\nkept\n"
    assert write_into(page, {"one": "| new |"}) == "# A\n\n<!-- measured: one -->\n\n| new |\n\n<!-- end -->\n\nkept\n"
    with pytest.raises(SystemExit, match="no place for 'two'"):
        write_into(page, {"two": ""})


def test_a_link_that_waits_is_seen_in_its_quietest_stretch() -> None:
    # 1 s of work in the first two seconds, then a tenth per second, then work again.
    course = [(0.0, 0.0), (2.0, 1.0), (4.0, 1.2), (6.0, 1.4), (8.0, 2.4)]
    assert idle_rate(course) == pytest.approx(0.1)
