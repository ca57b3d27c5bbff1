// A table that is wider than the page scrolls; the keyboard must reach it.
document.addEventListener("DOMContentLoaded", () => {
  const mark = () => {
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) {
      box.tabIndex = 0;
    }
  };
  mark();
  // The theme wraps tables after the page is there.
  new MutationObserver(mark).observe(document.body, { childList: true, subtree: true });
});
