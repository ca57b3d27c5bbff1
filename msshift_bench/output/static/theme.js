// Light or dark: the system's choice until the reader makes another. Runs before the page is drawn.
(() => {
  "use strict";
  const KEY = "msshift-theme";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  /** Storage may be forbidden; then a choice holds for this page only. */
  const storage = (() => {
    try {
      return window.localStorage;
    } catch {
      return null;
    }
  })();

  const show = (chosen) => {
    root.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : dark.matches ? "dark" : "light";
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  show(storage?.getItem(KEY));
  dark.addEventListener("change", () => show(storage?.getItem(KEY)));
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", () => {
      const next = root.dataset.theme === "dark" ? "light" : "dark";
      storage?.setItem(KEY, next);
      show(next);
    });
  });
})();
