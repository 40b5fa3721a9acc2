"""Every page can be come to from the README, and every link leads somewhere."""

from pathlib import PurePosixPath

import pytest

from tests.docs.page import ROOT, Page, pages, read

PAGES = {page.name: page for page in pages()}
LINKS = [(page, link) for page in PAGES.values() for link in page.links if "://" not in link]


def target_of(page: Page, link: str) -> tuple[str, str]:
    """The file, from the top of the repository, and the place in it."""
    path, _, anchor = link.partition("#")
    if not path:
        return page.name, anchor
    found = (ROOT / PurePosixPath(page.name).parent / path).resolve()
    return found.relative_to(ROOT).as_posix(), anchor


@pytest.mark.parametrize(
    ("page", "link"), LINKS, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_a_link_leads_somewhere(page: Page, link: str):
    name, anchor = target_of(page, link)
    assert (ROOT / name).exists()
    if anchor:
        assert anchor in PAGES[name].anchors


def test_every_page_is_linked_from_the_readme():
    linked = {target_of(read("README.md"), link)[0] for link in read("README.md").links}
    # The licence has its own place, and the README does not link itself.
    assert set(PAGES) - linked <= {"README.md"}
