// The table of systems: its columns, rows, order and filter.
(() => {
  "use strict";
  const { make, order, cellParts, cellDomain, cellOf, badgeOf } = window.msshift;
  const SUMMARY = ["out", "rel_loss", "avg_in"];

  /**
   * @typedef {object} Column
   * @property {string} id
   * @property {string} title
   * @property {string} [description]
   * @property {boolean} [numeric]
   * @property {boolean} [descending] what a first click gives
   * @property {(row: any) => any} key what rows are ordered by
   * @property {(row: any) => HTMLElement} cell
   */

  /** @param {any} row */
  const rankCell = (row) => {
    const td = make("td", { class: "col-rank" });
    if (row.rank === null) {
      td.append(make("span", { class: "none", text: "–", title: row.unranked || null }));
      if (row.unranked) td.append(make("span", { class: "hidden", text: row.unranked }));
    } else {
      const [best, worst] = row.range.split("-");
      td.append(make("span", { class: "value", text: row.rank }));
      if (best !== worst) {
        td.append(make("span", { class: "interval", text: `${best}–${worst}`, title: "ranks that it might take" }));
      }
    }
    return td;
  };

  /** @param {any} row @param {any} view */
  const systemCell = (row, view) => {
    const box = make("input", {
      type: "checkbox", "aria-label": `compare ${row.system.title}`, value: row.name,
      onchange: () => view.oncompare(row.name, box.checked),
    });
    box.checked = view.chosen.includes(row.name);
    return make("th", { scope: "row", class: "col-system" }, make("div", {}, box,
      make("span", { class: "who" },
        make("a", { href: `${document.body.dataset.base}systems/${row.name}.html`, text: row.system.title }),
        row.system.backbone ? make("small", { text: row.system.backbone }) : null,
        ...row.notes.map((/** @type {string} */ text) => make("small", { class: "caveat", text })))));
  };

  /**
   * @param {any} head the board @param {any} table its table @param {string} figure shown by group
   * @param {any[]} rows @param {any} view
   * @returns {Column[]}
   */
  const columnsOf = (head, table, figure, rows, view) => {
    const higher = head.measures[table.measure].higherIsBetter;
    const scales = new Map(SUMMARY.map((name) => [name, view.intervals
      ? cellDomain(rows.flatMap((row) => Object.values(row.cells).map((/** @type {any} */ one) => one[name])), name)
      : null]));
    const numeric = (/** @type {string} */ id, /** @type {string} */ title, /** @type {string} */ description,
      /** @type {string} */ column, /** @type {string} */ name, /** @type {string} */ extra) => ({
      id, title, description, numeric: true, descending: name !== "rel_loss" && higher,
      key: (/** @type {any} */ row) => cellParts(row.cells[column]?.[name])?.value,
      cell: (/** @type {any} */ row) => cellOf(row.cells[column]?.[name], {
        figure: name, scale: scales.get(name),
        class: [extra, row.perGroup ? "" : "untrained"].filter(Boolean).join(" "),
      }),
    });
    const groups = table.columns.filter((/** @type {any} */ one) => one.name !== "mean");
    return [
      { id: "rank", title: "Rank", description: "by Rel Loss", key: (row) => row.rank, cell: rankCell },
      { id: "system", title: "System", key: (row) => row.system.title.toLowerCase(), cell: (row) => systemCell(row, view) },
      ...SUMMARY.map((name) => numeric(name, head.figures[name], "", "mean", name, `mean ${name}`)),
      ...groups.map((/** @type {any} */ one) => numeric(`group-${one.name}`, one.name, one.description, one.name, figure, "group")),
      { id: "family", title: "Family", key: (row) => row.system.family, cell: (row) => make("td", { class: "fact", text: row.system.family }) },
      { id: "badge", title: "Badge", key: (row) => row.system.badge,
        cell: (row) => make("td", {}, badgeOf(row.system.badge, head.badges[row.system.badge])) },
      { id: "class", title: "Training", key: (row) => row.system.trainingClass,
        cell: (row) => make("td", { class: "fact", text: row.system.trainingClass }) },
      { id: "seeds", title: "Seeds", numeric: true, key: (row) => row.seeds || null,
        cell: (row) => make("td", { class: "num fact", text: row.seeds || "–", "data-value": row.seeds || null }) },
    ];
  };

  /**
   * @param {Column[]} columns @param {any} head @param {any} table @param {string} figure
   * @param {any} state @param {(id: string, descending: boolean) => void} onsort
   */
  const header = (columns, head, table, figure, state, onsort) => {
    const groups = columns.filter((column) => column.id.startsWith("group-")).length;
    const over = make("tr", { class: "over" },
      make("td", { colspan: 2 }),
      make("th", { scope: "colgroup", colspan: SUMMARY.length, text: "Mean" }),
      make("th", { scope: "colgroup", colspan: groups, text: `${head.figures[figure]} by ${table.shift === "all" ? "shift" : "group"}` }),
      make("td", { colspan: columns.length - groups - SUMMARY.length - 2 }));
    const titles = make("tr", {}, ...columns.map((column) => {
      const sorted = state.sort === column.id;
      return make("th", {
        scope: "col", class: `${column.numeric ? "num " : ""}col-${column.id}`,
        "aria-sort": sorted ? (state.dir === "desc" ? "descending" : "ascending") : null,
      }, make("button", {
        type: "button", "data-sort": column.id,
        onclick: () => onsort(column.id, sorted ? state.dir !== "desc" : Boolean(column.descending)),
      }, make("span", { text: column.title }), column.description ? make("small", { text: column.description }) : null));
    }));
    return [over, titles];
  };

  /** What the search looks at. @param {any} row */
  const searched = (row) => {
    const { title, backbone, authors, data, family } = row.system;
    return [row.name, title, backbone, authors, data, family].join("\n").toLowerCase();
  };

  /** @param {any} row @param {Record<string, string>} state */
  const passes = (row, state) =>
    (!state.family || row.system.family === state.family)
    && (!state.badge || row.system.badge === state.badge)
    && (!state.class || row.system.trainingClass === state.class)
    && state.q.toLowerCase().split(/\s+/).every((word) => row.searched.includes(word));

  /**
   * Order rows in place by a column, equal ones by name.
   * @param {any[]} rows @param {Column} column @param {string} direction
   */
  const sort = (rows, column, direction) => {
    const sign = direction === "desc" ? -1 : 1;
    const keys = new Map(rows.map((row) => [row, column.key(row)]));
    rows.sort((a, b) => order(keys.get(a), keys.get(b), sign) || order(a.name, b.name, 1));
  };

  Object.assign(window.msshift, { tableColumns: columnsOf, tableHeader: header, tableSearched: searched,
    tablePasses: passes, tableSort: sort });
})();
