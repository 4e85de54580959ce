"""A headless Chromium for tests, and what it can say of a page: errors, pictures, text cut off."""

import os
from contextlib import contextmanager

import pytest

import install_browser

CUT_OFF = """
() => {
  const found = [];
  const wide = document.documentElement.clientWidth;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(parent.tagName)) continue;
    if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (!box.width || !box.height) continue;
      const why = hidden(box, parent);
      if (why) found.push(`${why}: ${node.data.trim().slice(0, 60)}`);
    }
  }
  return found;

  // Where a box is lost: beyond the window's sides, or beyond what an element shows or scrolls to.
  function hidden(box, element) {
    let { left, right, top, bottom } = box;
    for (; element && element !== document.documentElement; element = element.parentElement) {
      const style = getComputedStyle(element);
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      const edge = element.getBoundingClientRect();
      const x = edge.left + element.clientLeft, y = edge.top + element.clientTop;
      if (left < x - 1 || right > x + element.clientWidth + 1) {
        return `beside ${element.tagName}`;
      }
      const scrolls = ["auto", "scroll"].includes(style.overflowY);
      if (!scrolls && (top < y - 1 || bottom > y + element.clientHeight + 1)) {
        return `above or below ${element.tagName}`;
      }
      const start = y - element.scrollTop;
      if (scrolls && (top < start - 1 || bottom > start + element.scrollHeight + 1)) {
        return `out of reach in ${element.tagName}`;
      }
      if (scrolls) { top = Math.max(top, y); bottom = Math.min(bottom, y + element.clientHeight); }
    }
    return left < -1 || right > wide + 1 ? "beside the window" : "";
  }
}
"""
"""Texts that are cut off in a document, each with the reason. To scroll down is no loss, to have to
scroll sideways is.
"""

BROKEN = """
() => [...document.querySelectorAll("img, canvas")]
  .filter((picture) => {
    const box = picture.getBoundingClientRect();
    const drawn = picture.tagName === "CANVAS" || (picture.complete && picture.naturalWidth);
    const whole = box.left > -1 && box.right < document.documentElement.clientWidth + 1;
    return !drawn || !box.width || !whole;
  })
  .map((picture) => (picture.src || picture.parentElement.id || picture.tagName).slice(0, 60))
"""
"""Pictures of a document that are not drawn, or not wholly in its window."""

OUTSIDE = """
() => {
  const page = document.querySelector("svg").getBoundingClientRect();
  return [...document.querySelectorAll('svg g[id^="text_"]')].filter((group) => {
    const box = group.getBoundingClientRect();
    return box.width && (box.left < page.left - 1 || box.right > page.right + 1
      || box.top < page.top - 1 || box.bottom > page.bottom + 1);
  }).map((group) => group.id);
}
"""
"""Texts of a picture that reach beyond its edge."""


def path():
    """The browser's; where there is none, CI fails, and elsewhere the test is skipped, said so."""
    found = install_browser.find()
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(install_browser.HINT)
    if found is None:
        pytest.skip(install_browser.HINT)
    return found


@contextmanager
def chromium():
    """A running browser."""
    executable = path()
    from playwright.sync_api import sync_playwright

    sandbox = [] if getattr(os, "geteuid", lambda: 1)() else ["--no-sandbox"]  # root has none
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=sandbox)
        yield browser
        browser.close()


def _foreign(url):
    return [] if url.startswith(("file:", "data:", "blob:")) else [url[:80]]


@contextmanager
def page(browser, width, height=900):
    """A page without a network, and a list that fills with its errors and requests."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        offline=True,
        reduced_motion="reduce",  # a click on what still moves may hit what is beside it
    )
    found = context.new_page()
    errors = []
    found.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.on("request", lambda request: errors.extend(_foreign(request.url)))
    yield found, errors
    context.close()
