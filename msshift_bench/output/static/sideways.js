// What can be scrolled sideways says so: a shadow where a table or a command goes on, and the line
// beneath a table.
(() => {
  "use strict";

  const BOXES = ".scroll, pre";

  const mark = (box) => {
    const hidden = box.scrollWidth - box.clientWidth;
    box.classList.toggle("wide", hidden > 1);
    box.classList.toggle("more", hidden - box.scrollLeft > 1);
  };
  const sizes = new ResizeObserver((changes) => {
    for (const box of new Set(changes.map(({ target }) => target.closest(BOXES)))) if (box) mark(box);
  });
  const watched = new WeakSet();
  const watch = () => {
    for (const one of document.querySelectorAll(`${BOXES}, .scroll > table`)) {
      if (watched.has(one)) continue;
      watched.add(one);
      sizes.observe(one);
    }
  };

  addEventListener("scroll", ({ target }) => {
    if (target instanceof Element && target.matches(BOXES)) mark(target);
  }, { capture: true, passive: true });
  watch();
  new MutationObserver(watch).observe(document.querySelector("main"), { childList: true, subtree: true });
})();
