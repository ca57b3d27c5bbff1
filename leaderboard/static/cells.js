// One number of a table: its text, as the evaluator rounded it, its interval, and a small bar.
(() => {
  "use strict";
  const { make } = window.msshift;

  const parts = (cell) => cell && {
    value: cell[0],
    text: cell[1],
    low: cell[2] ?? null,
    high: cell[3] ?? null,
    interval: cell[4] ?? "",
    significant: Boolean((cell[5] ?? 0) & 1),
    best: Boolean((cell[5] ?? 0) & 2),
  };

  /**
   * The least and greatest number that bars must hold, losses with their zero.
   */
  const domain = (cells, figure) => {
    const ends = cells.flatMap((cell) => (cell ? [cell[2] ?? cell[0], cell[3] ?? cell[0]] : []));
    if (figure === "rel_loss") ends.push(0);
    return { low: Math.min(...ends), high: Math.max(...ends) };
  };

  /**
   * The interval's text, with a bar above it that is drawn as its background: one element for both,
   * as a table of 500 systems has thousands.
   */
  const interval = (one, scale) => {
    const at = (value) =>
      `${2 + (96 * (value - scale.low)) / (scale.high - scale.low || 1)}%`;
    const element = make("span", { class: "interval bar", text: one.interval });
    element.style.setProperty("--at", at(one.value));
    element.style.setProperty("--low", at(one.low ?? one.value));
    element.style.setProperty("--high", at(one.high ?? one.value));
    return element;
  };

  /** A cell of a table; without a scale neither interval nor bar is shown. */
  const number = (cell, { figure, scale, class: extra = "" }) => {
    const td = make("td", { class: `num ${extra}`.trim(), "data-figure": figure });
    const one = parts(cell);
    if (!one) {
      td.append(make("span", { class: "none", text: "–" }));
      return td;
    }
    td.dataset.value = String(one.value);
    td.append(make("span", { class: one.best ? "value best" : "value", text: one.text }));
    if (one.significant) {
      td.append(make("abbr", { class: "star", title: "corrected p at most 0.05", text: "*" }));
    }
    if (scale) td.append(interval(one, scale));
    return td;
  };

  const badge = (name, title) => make("span", { class: `badge badge-${name}`, title, text: name });

  Object.assign(window.msshift, { cellParts: parts, cellDomain: domain, cellOf: number, badgeOf: badge });
})();
