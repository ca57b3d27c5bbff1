// Query by query: loaded with its panel; searched, sorted and shown a page at a time.
(() => {
  "use strict";
  const { make, find, sortedBy, sortRows, sortHead, calmly, load, csv, download, systemState: state } = window.msshift;
  const section = document.getElementById("queries");
  if (!section || !state) return;
  const PAGE = 25;
  const TITLES = { avg_in: "Avg In", out: "Out", loss: "Loss", score: "Score" };
  const system = section.dataset.system ?? "";
  const withTexts = (section.dataset.texts ?? "").split(" ");
  const form = find("form", section);
  /** What is shown: the shift and measure, their data, the rows. */
  let now = null;
  /** What was chosen last: loading takes a while, and the reader may have gone on. */
  let wanted = null;

  const choose = async (chosen) => {
    wanted = chosen;
    const { shift, measure } = chosen;
    const key = `queries/${system}/${shift}`;
    const data = await load(key, key);
    const texts = withTexts.includes(shift) ? await load(`texts/${shift}`, `texts/${shift}`) : null;
    if (wanted !== chosen) return;
    const { values, texts: shown, columns } = data.measures[measure];
    const groups = data.groups.flatMap(([name, count]) => Array(count).fill(name));
    const rows = data.ids.map((id, at) => ({
      id, group: groups[at], missing: data.missing[at], text: texts?.[id] ?? "",
      at: (column) => columns[column][at],
    }));
    now = { shift, measure, values, shown, rows, columns: Object.keys(columns), texts: texts !== null };
    form.elements.group.replaceChildren(make("option", { value: "", text: "all" }),
      ...data.groups.map(([name]) => make("option", { value: name, text: name })));
    form.elements.group.value = state.get().group;
    form.elements.search.value = state.get().search;
    section.hidden = false;
    show();
  };

  /** The rows that pass. */
  const passing = () => {
    const { search, group } = state.get();
    const wanted = search.toLowerCase().trim();
    return now.rows.filter((row) => (!group || row.group === group)
      && (!wanted || row.id.toLowerCase().includes(wanted) || row.text.toLowerCase().includes(wanted)));
  };

  const columnsOf = () => [
    { id: "id", title: "Query", key: (row) => row.id },
    ...(now.texts ? [{ id: "text", title: "Text" }] : []),
    { id: "group", title: "Group", key: (row) => row.group },
    ...now.columns.map((id) => ({ id, title: TITLES[id], numeric: true, key: (row) => row.at(id) })),
    { id: "missing", title: "Missing", numeric: true, key: (row) => row.missing },
  ].map((column) => ({ ...column, descending: true }));

  const onSort = (chosen) => {
    change(chosen);
    find(`#queries-table [data-sort="${chosen.sort}"]`).focus();
  };

  const line = (row) => make("tr", { "data-query": row.id },
    make("th", { scope: "row", text: row.id }),
    now.texts ? make("td", { class: "text", text: row.text }) : null,
    make("td", { text: row.group }),
    ...now.columns.map((column) =>
      make("td", { class: "num", "data-value": now.values[row.at(column)], text: now.shown[row.at(column)] })),
    make("td", { class: "num", text: row.missing || "" }));

  const show = () => {
    const rows = passing();
    const columns = columnsOf();
    const sorted = sortedBy(columns, state.get(), now.columns.includes("loss") ? "loss" : "score");
    sortRows(rows, sorted, (row) => row.id);
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    const page = Math.min(pages, Math.max(1, Number(state.get().page) || 1));
    const first = (page - 1) * PAGE;
    find("#queries-table thead").replaceChildren(make("tr", {}, ...columns.map((column) => sortHead(column, sorted, onSort))));
    find("#queries-table tbody").replaceChildren(...rows.slice(first, first + PAGE).map(line));
    find("#queries-count").textContent = rows.length
      ? `${(first + 1).toLocaleString("en")} to ${Math.min(first + PAGE, rows.length).toLocaleString("en")} of ${rows.length.toLocaleString("en")} queries, ${now.measure}`
      : "No query passes.";
    find("#queries-back").disabled = page === 1;
    find("#queries-next").disabled = page === pages;
    now.page = page;
  };

  const change = (changes) => {
    state.set({ page: "1", ...changes });
    show();
  };

  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.group.addEventListener("change", () => change({ group: form.elements.group.value }));
  form.elements.search.addEventListener("input", calmly(() => change({ search: form.elements.search.value })));
  find("#queries-back").addEventListener("click", () => change({ page: String(now.page - 1) }));
  find("#queries-next").addEventListener("click", () => change({ page: String(now.page + 1) }));
  find("#queries-csv").addEventListener("click", () => {
    const rows = now.rows.map((row) => [row.id, row.group,
      ...now.columns.map((column) => now.values[row.at(column)]), row.missing]);
    download(`msshift-${system}-${now.shift}-${now.measure.replace(/[^A-Za-z0-9]+/g, "-")}.csv`, "text/csv",
      csv(["query_id", "group", ...now.columns, "missing"], rows));
  });
  document.addEventListener("panelchange", (event) => choose(event.detail));
})();
