"""Section 2.1: a person reviews what agents propose, in the console."""

import pytest
from conftest import has_console, in_node


@pytest.mark.timeout(300)
def test_a_person_reviews_beside_agents(unguarded, checks, folder):
    has_console(unguarded)
    in_node(checks, folder, "reviews.test.mjs", 280, url=unguarded.url)
