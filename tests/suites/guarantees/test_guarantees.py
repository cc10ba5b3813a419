"""Every id in a test's name is explained in docs/guarantees.md, and every line there names tests that exist."""

import guarantees


def test_every_id_in_a_test_name_is_on_the_page(checks):
    page = guarantees.page()
    for identity, files in guarantees.proofs().items():
        checks(identity in page, f"{identity} has no line in {guarantees.PAGE.name}", ", ".join(files))


def test_every_line_of_the_page_names_the_tests_that_prove_it(checks):
    found = guarantees.proofs()
    for identity, (_, state, files) in guarantees.page().items():
        have = [guarantees.short(file) for file in found.get(identity, [])]
        wrong = "`python3 tests/support/guarantees.py` writes them"
        checks(files == have, f"{identity} names other files than those with its tests; {wrong}", f"{files}, not {have}")
        checks(files or state == "missed", f"{identity} has no test")
