"""The questions that tests put to a page are answered with no where the answer is no."""

from __future__ import annotations

from browser import Browser

BAD = """<!DOCTYPE html><html lang="en"><head><title>A bad page</title><link rel="stylesheet" href="missing.css"></head>
<body style="background: #fff"><p style="color: #aaa">pale</p><p style="width: 900px">wide</p>
<a href="#a" style="outline: none">unmarked</a><script>console.error("complaint")</script></body></html>"""


def test_a_bad_page_is_seen_through(browser: Browser) -> None:
    browser.show(BAD, width=360)
    assert any("wide" in each for each in browser.overflowing)
    assert [each.partition("<")[2][:1] for each in browser.pale] == ["p"]
    assert any("missing.css" in url for url in browser.requested)
    assert any("complaint" in line for line in browser.said)
    reached, reachable, unmarked = browser.walk()
    assert (reached, reachable, len(unmarked)) == (1, 1, 1)
