// What the theme leaves to those who do not use a mouse or read with their eyes.
document.addEventListener("DOMContentLoaded", () => {
  const mark = () => {
    // A table that is wider than the page scrolls; the keyboard must reach it.
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) {
      box.tabIndex = 0;
    }
    // Landmarks need names of their own: each block of code has one, for its buttons.
    document.querySelectorAll(".md-code__nav").forEach((nav, number) => {
      const name = `Code block ${number + 1}`;
      if (nav.getAttribute("aria-label") !== name) {
        nav.setAttribute("aria-label", name);
      }
    });
    // A column without a heading has no header cell.
    for (const cell of document.querySelectorAll("th:empty")) {
      cell.replaceWith(document.createElement("td"));
    }
  };
  mark();
  // The theme wraps tables and adds buttons after the page is there.
  new MutationObserver(mark).observe(document.body, { childList: true, subtree: true });
});
