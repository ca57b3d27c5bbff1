// Query by query: loaded with its panel; searched, sorted and shown a page at a time.
(() => {
  "use strict";
  const { make, find, order, calmly, load, csv, download, systemState: state } = window.msshift;
  const section = document.getElementById("queries");
  if (!section || !state) return;
  const PAGE = 25;
  const TITLES = { avg_in: "Avg In", out: "Out", loss: "Loss", score: "Score" };
  const system = section.dataset.system ?? "";
  const withTexts = (section.dataset.texts ?? "").split(" ");
  const form = find("form", section);
  /** What is shown: the shift and measure, their data, the rows. @type {any} */
  let now = null;
  /** What was chosen last: loading takes a while, and the reader may have gone on. @type {any} */
  let wanted = null;

  /** @param {{shift: string, measure: string}} chosen */
  const choose = async (chosen) => {
    wanted = chosen;
    const { shift, measure } = chosen;
    const key = `queries/${system}/${shift}`;
    const data = await load(key, key);
    const texts = withTexts.includes(shift) ? await load(`texts/${shift}`, `texts/${shift}`) : null;
    if (wanted !== chosen) return;
    const { values, texts: shown, columns } = data.measures[measure];
    const groups = data.groups.flatMap((/** @type {[string, number]} */ [name, count]) => Array(count).fill(name));
    const rows = data.ids.map((/** @type {string} */ id, /** @type {number} */ at) => ({
      id, group: groups[at], missing: data.missing[at], text: texts?.[id] ?? "",
      at: (/** @type {string} */ column) => columns[column][at],
    }));
    now = { shift, measure, values, shown, rows, columns: Object.keys(columns), texts: texts !== null };
    form.elements.group.replaceChildren(make("option", { value: "", text: "all" }),
      ...data.groups.map((/** @type {[string, number]} */ [name]) => make("option", { value: name, text: name })));
    form.elements.group.value = state.get().group;
    form.elements.search.value = state.get().search;
    section.hidden = false;
    show();
  };

  const sorted = () => {
    const given = state.get().sort;
    return ["id", "group", "missing", ...now.columns].includes(given) ? given : now.columns.includes("loss") ? "loss" : "score";
  };

  /** The rows that pass, in their order. */
  const passing = () => {
    const { search, group, dir } = state.get();
    const wanted = search.toLowerCase().trim();
    const rows = now.rows.filter((/** @type {any} */ row) => (!group || row.group === group)
      && (!wanted || row.id.toLowerCase().includes(wanted) || row.text.toLowerCase().includes(wanted)));
    const column = sorted();
    const key = now.columns.includes(column) ? (/** @type {any} */ row) => row.at(column) : (/** @type {any} */ row) => row[column];
    const sign = dir === "asc" ? 1 : -1;
    return rows.sort((/** @type {any} */ a, /** @type {any} */ b) => order(key(a), key(b), sign) || order(a.id, b.id, 1));
  };

  const columnsOf = () => [
    { id: "id", title: "Query" },
    ...(now.texts ? [{ id: "", title: "Text" }] : []),
    { id: "group", title: "Group" },
    ...now.columns.map((/** @type {keyof typeof TITLES} */ id) => ({ id, title: TITLES[id], numeric: true })),
    { id: "missing", title: "Missing", numeric: true },
  ];

  /** @param {any} column */
  const heading = (column) => {
    const on = column.id === sorted();
    const down = state.get().dir !== "asc";
    const label = make("span", { text: column.title });
    return make("th", { scope: "col", class: column.numeric ? "num" : null, "aria-sort": on && column.id ? (down ? "descending" : "ascending") : null },
      column.id ? make("button", { type: "button", "data-sort": column.id, onclick: () => {
        change({ sort: column.id, dir: on && down ? "asc" : "desc" });
        find(`#queries-table [data-sort="${column.id}"]`).focus();
      } }, label) : label);
  };

  /** @param {any} row */
  const line = (row) => make("tr", { "data-query": row.id },
    make("th", { scope: "row", text: row.id }),
    now.texts ? make("td", { class: "text", text: row.text }) : null,
    make("td", { text: row.group }),
    ...now.columns.map((/** @type {string} */ column) =>
      make("td", { class: "num", "data-value": now.values[row.at(column)], text: now.shown[row.at(column)] })),
    make("td", { class: "num", text: row.missing || "" }));

  const show = () => {
    const rows = passing();
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    const page = Math.min(pages, Math.max(1, Number(state.get().page) || 1));
    const first = (page - 1) * PAGE;
    find("#queries-table thead").replaceChildren(make("tr", {}, ...columnsOf().map(heading)));
    find("#queries-table tbody").replaceChildren(...rows.slice(first, first + PAGE).map(line));
    find("#queries-count").textContent = rows.length
      ? `${(first + 1).toLocaleString("en")} to ${Math.min(first + PAGE, rows.length).toLocaleString("en")} of ${rows.length.toLocaleString("en")} queries, ${now.measure}`
      : "No query passes.";
    find("#queries-back").disabled = page === 1;
    find("#queries-next").disabled = page === pages;
    now.page = page;
  };

  /** @param {Record<string, string>} changes */
  const change = (changes) => {
    state.set({ page: "1", ...changes });
    show();
  };

  form.addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
  form.elements.group.addEventListener("change", () => change({ group: form.elements.group.value }));
  form.elements.search.addEventListener("input", calmly(() => change({ search: form.elements.search.value })));
  find("#queries-back").addEventListener("click", () => change({ page: String(now.page - 1) }));
  find("#queries-next").addEventListener("click", () => change({ page: String(now.page + 1) }));
  find("#queries-csv").addEventListener("click", () => {
    const rows = now.rows.map((/** @type {any} */ row) => [row.id, row.group,
      ...now.columns.map((/** @type {string} */ column) => now.values[row.at(column)]), row.missing]);
    download(`msshift-${system}-${now.shift}-${now.measure.replace(/[^A-Za-z0-9]+/g, "-")}.csv`, "text/csv",
      csv(["query_id", "group", ...now.columns, "missing"], rows));
  });
  document.addEventListener("panelchange", (/** @type {any} */ event) => choose(event.detail));
})();
