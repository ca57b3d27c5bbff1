// Tables that the reader sorts. A column has an `id`, a `title`, a `key` that rows are ordered by,
// and `descending` if that is what a first click on its head gives; without a key it does not sort.
(() => {
  "use strict";
  const { make } = window.msshift;

  /** Order two numbers or texts; those that are missing come last, whether the sign is 1 or -1. */
  const order = (a, b, sign) => {
    const none = (value) => value === null || value === undefined || value === "";
    if (none(a) || none(b)) return Number(none(a)) - Number(none(b));
    if (typeof a === "number") return sign * (a - b);
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  };

  /** The column that the state of the page names, or else `fallback`, and its direction. */
  const sortedBy = (columns, { sort, dir }, fallback) => {
    const column = columns.find((one) => one.key && one.id === sort) ?? columns.find((one) => one.id === fallback);
    return { column, descending: dir ? dir === "desc" : Boolean(column.descending) };
  };

  /** Order rows in place; equal ones by their name. */
  const sortRows = (rows, { column, descending }, name) => {
    const keys = new Map(rows.map((row) => [row, column.key(row)]));
    const sign = descending ? -1 : 1;
    rows.sort((a, b) => order(keys.get(a), keys.get(b), sign) || order(name(a), name(b), 1));
  };

  /** A column's head; `onsort` gets the state that a click chooses. */
  const sortHead = (column, sorted, onsort) => {
    const on = sorted.column === column;
    const descending = on ? !sorted.descending : Boolean(column.descending);
    const title = [
      make("span", { text: column.title }),
      column.description ? make("small", { text: column.description }) : null,
    ];
    return make("th", {
      scope: "col", class: `${column.numeric ? "num " : ""}col-${column.id}`,
      "aria-sort": on ? (sorted.descending ? "descending" : "ascending") : null,
    }, ...(column.key ? [make("button", {
      type: "button", "data-sort": column.id,
      onclick: () => onsort({ sort: column.id, dir: descending ? "desc" : "asc" }),
    }, ...title)] : title));
  };

  Object.assign(window.msshift, { sortedBy, sortRows, sortHead });
})();
