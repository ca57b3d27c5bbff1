// One number of a table: its text, as the evaluator rounded it, its interval, and a small bar.
(() => {
  "use strict";
  const { make } = window.msshift;

  /** As `Cell.to_json` in leaderboard/views.py writes it.
   * @typedef {[number, string, (number | null)?, (number | null)?, string?, number?]} Cell */

  /** @param {Cell | undefined} cell */
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
   * @param {(Cell | undefined)[]} cells @param {string} figure
   */
  const domain = (cells, figure) => {
    const ends = cells.flatMap((cell) => (cell ? [cell[2] ?? cell[0], cell[3] ?? cell[0]] : []));
    if (figure === "rel_loss") ends.push(0);
    return { low: Math.min(...ends), high: Math.max(...ends) };
  };

  /**
   * The interval's text, with a bar above it that is drawn as its background: one element for both,
   * as a table of 500 systems has thousands.
   * @param {NonNullable<ReturnType<typeof parts>>} one @param {{low: number, high: number}} scale
   */
  const interval = (one, scale) => {
    const at = (/** @type {number} */ value) =>
      `${2 + (96 * (value - scale.low)) / (scale.high - scale.low || 1)}%`;
    const element = make("span", { class: "interval bar", text: one.interval });
    element.style.setProperty("--at", at(one.value));
    element.style.setProperty("--low", at(one.low ?? one.value));
    element.style.setProperty("--high", at(one.high ?? one.value));
    return element;
  };

  /**
   * @param {Cell | undefined} cell
   * @param {{figure: string, scale?: {low: number, high: number} | null, class?: string}} options
   *   without a scale neither interval nor bar is shown
   */
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

  /** @param {string} name @param {string} title */
  const badge = (name, title) => make("span", { class: `badge badge-${name}`, title, text: name });

  Object.assign(window.msshift, { cellParts: parts, cellDomain: domain, cellOf: number, badgeOf: badge });
})();
