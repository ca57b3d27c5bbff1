// A board's page: sorts, filters and searches the table that stands in it, and keeps the choice in
// the address, so that a view can be sent as a link. Without this script the table shows all.
(() => {
  "use strict";
  const form = document.getElementById("controls");
  if (!form) return;
  const table = document.getElementById("systems");
  const rows = [...table.querySelectorAll("tr[data-system]")];
  const heads = [...table.querySelectorAll("th:has([data-sort])")];
  const FILTERS = ["family", "badge", "class"];
  const DEFAULTS = { figure: table.dataset.figure, sort: "out", dir: "", q: "", family: "", badge: "", class: "", intervals: "1" };
  let state = { ...DEFAULTS };

  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    state = { ...DEFAULTS };
    for (const key of Object.keys(DEFAULTS)) state[key] = given.get(key) ?? DEFAULTS[key];
    if (!["out", "rel_loss", "avg_in"].includes(state.figure)) state.figure = DEFAULTS.figure;
  };

  const write = () => {
    const changed = Object.entries(state).filter(([key, value]) => value !== DEFAULTS[key]);
    const hash = changed.length ? `#${new URLSearchParams(changed)}` : "";
    if (hash || location.hash.includes("=")) history.replaceState(null, "", hash || location.pathname);
    for (const link of document.querySelectorAll(".tabs a, nav.switch a")) link.hash = hash;
  };

  /** What a row is ordered by: a number or a text; null if it has none, so that it comes last. */
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const value = (cell.querySelector(`[data-figure="${state.figure}"]`) ?? cell).dataset.value;
    return value === "" || value === undefined ? null : Number.isNaN(Number(value)) ? value : Number(value);
  };

  const sort = () => {
    const head = heads.find((one) => one.firstChild.dataset.sort === state.sort) ?? heads[1];
    const falls = "descending" in head.firstChild.dataset && !(state.figure === "rel_loss" && state.sort.startsWith("group-"));
    const descending = state.dir ? state.dir === "desc" : falls;
    for (const one of heads) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const keys = new Map(rows.map((row) => [row, keyOf(row, head.cellIndex)]));
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      return (descending ? -1 : 1) * (x < y ? -1 : x > y ? 1 : 0) || (a.dataset.system < b.dataset.system ? -1 : 1);
    });
    for (const body of table.tBodies) body.append(...sorted.filter((row) => row.parentNode === body));
  };

  const filter = () => {
    const words = state.q.toLowerCase().split(/\s+/);
    const passing = rows.filter((row) => FILTERS.every((name) => !state[name] || row.dataset[name] === state[name])
      && words.every((word) => row.dataset.text.includes(word)));
    for (const row of rows) row.hidden = !passing.includes(row) && !row.classList.contains("reference");
    const on = ["q", ...FILTERS].filter((name) => state[name]).length;
    document.getElementById("filters-count").textContent = on ? ` (${on} on)` : "";
    const of = passing.length === rows.length ? "" : `${passing.length} of `;
    document.getElementById("count").textContent = `${of}${rows.length} systems`;
  };

  const show = () => {
    for (const [name, value] of Object.entries(state)) {
      const field = form.elements[name];
      if (name === "intervals" && field) field.checked = value === "1";
      else if (field) field.value = value;
    }
    table.dataset.figure = state.figure;
    table.classList.toggle("plain-numbers", state.intervals !== "1");
    sort();
    filter();
    write();
    performance.mark("table-shown");
  };

  for (const name of FILTERS) {
    const values = [...new Set(rows.map((row) => row.dataset[name]))].sort();
    form.elements[name].append(...values.map((value) => new Option(value, value)));
  }
  for (const hidden of form.querySelectorAll("[hidden]")) hidden.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    state[target.name] = target.type === "checkbox" ? (target.checked ? "1" : "0") : target.value;
    show();
  });
  table.tHead.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-sort]");
    if (!button) return;
    const now = button.parentNode.getAttribute("aria-sort");
    state.sort = button.dataset.sort;
    state.dir = now === "descending" ? "asc" : now === "ascending" ? "desc" : "";
    show();
  });
  addEventListener("hashchange", () => {
    if (location.hash && !location.hash.includes("=")) return;
    read();
    show();
  });
  read();
  show();
})();
