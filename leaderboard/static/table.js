// The table of systems: its columns, rows, order and filter.
(() => {
  "use strict";
  const { make, sortHead, cellParts, cellDomain, cellOf, badgeOf } = window.msshift;
  const SUMMARY = ["out", "rel_loss", "avg_in"];
  /** The columns that are left out where no system of the table has a value. */
  const WHERE_KNOWN = ["seeds", "leaked", "year", "parameters"];

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

  const pageOf = (row) => `${document.body.dataset.base}systems/${row.name}.html`;

  const linksOf = (row) => {
    const { system } = row;
    const links = ["paper", "code"].filter((name) => system[name]).map((name) =>
      make("a", { href: system[name], rel: "noopener noreferrer external", text: name, "aria-label": `${name} of ${system.title}` }));
    if (system.hasCommands) {
      links.push(make("a", { href: `${pageOf(row)}#reproduce`, text: "repeat it", "aria-label": `repeat it: ${system.title}` }));
    }
    return links.length ? [make("small", { class: "links" }, ...links.flatMap((link) => [link, " "]))] : [];
  };

  const systemCell = (row, view) => {
    const box = make("input", {
      type: "checkbox", "aria-label": `compare ${row.system.title}`, value: row.name,
      onchange: () => view.oncompare(row.name, box.checked),
    });
    box.checked = view.chosen.includes(row.name);
    return make("th", { scope: "row", class: "col-system" }, make("div", {}, box,
      make("span", { class: "who" },
        make("a", { href: pageOf(row), text: row.system.title }),
        ...linksOf(row),
        row.system.backbone ? make("small", { text: row.system.backbone }) : null,
        ...row.notes.map((text) => make("small", { class: "caveat", text })))));
  };


  /** The columns, as `sorting.js` has them; `cell` makes a row's cell. */
  const columnsOf = (head, table, figure, rows, view) => {
    const higher = head.measures[table.measure].higherIsBetter;
    const scales = new Map(SUMMARY.map((name) => [name, view.intervals
      ? cellDomain(rows.flatMap((row) => Object.values(row.cells).map((one) => one[name])), name)
      : null]));
    const numeric = (id, title, description, column, name, extra) => ({
      id, title, description, numeric: true, descending: name !== "rel_loss" && higher,
      key: (row) => cellParts(row.cells[column]?.[name])?.value,
      cell: (row) => cellOf(row.cells[column]?.[name], {
        figure: name, scale: scales.get(name),
        class: [extra, row.perGroup ? "" : "untrained"].filter(Boolean).join(" "),
      }),
    });
    const groups = table.columns.filter((one) => one.name !== "mean");
    return [
      { id: "rank", title: "Rank", description: "by Rel Loss", key: (row) => row.rank, cell: rankCell },
      { id: "system", title: "System", description: "tick to compare", key: (row) => row.system.title.toLowerCase(), cell: (row) => systemCell(row, view) },
      ...SUMMARY.map((name) => numeric(name, head.figures[name], "", "mean", name, `mean ${name}`)),
      ...groups.map((one) => numeric(`group-${one.name}`, one.name, one.description, one.name, figure, "group")),
      { id: "family", title: "Family", key: (row) => row.system.family, cell: (row) => make("td", { class: "fact", text: row.system.family }) },
      { id: "badge", title: "Badge", key: (row) => row.system.badge,
        cell: (row) => make("td", {}, badgeOf(row.system.badge, head.badges[row.system.badge])) },
      { id: "class", title: "Training", key: (row) => row.system.trainingClass,
        cell: (row) => make("td", { class: "fact", text: row.system.trainingClass }) },
      { id: "seeds", title: "Seeds", numeric: true, key: (row) => row.seeds || null,
        cell: (row) => make("td", { class: "num fact", text: row.seeds || "–", "data-value": row.seeds || null }) },
      { id: "leaked", title: "Leaked", description: "of zero-shot queries", numeric: true, key: (row) => row.leaked,
        cell: (row) => make("td", { class: "num fact", text: row.leakedText || "–", "data-value": row.leaked,
          title: "zero-shot test queries with a near-duplicate among the declared training queries" }) },
      { id: "year", title: "Year", numeric: true, descending: true, key: (row) => row.system.year,
        cell: (row) => make("td", { class: "num fact", text: row.system.year ?? "–", "data-value": row.system.year }) },
      { id: "parameters", title: "Params", numeric: true, key: (row) => row.system.parameters,
        cell: (row) => make("td", { class: "num fact", text: row.system.size || "–", "data-value": row.system.parameters }) },
    ].filter(({ id, key }) => !WHERE_KNOWN.includes(id) || rows.some((row) => key(row) || (id === "leaked" && key(row) === 0)));
  };

  const header = (columns, head, table, figure, sorted, onsort) => {
    const groups = columns.filter((column) => column.id.startsWith("group-")).length;
    const over = make("tr", { class: "over" },
      make("td", { colspan: 2 }),
      make("th", { scope: "colgroup", colspan: SUMMARY.length, text: "Mean" }),
      make("th", { scope: "colgroup", colspan: groups, text: `${head.figures[figure]} by ${table.shift === "all" ? "shift" : "group"}` }),
      make("td", { colspan: columns.length - groups - SUMMARY.length - 2 }));
    return [over, make("tr", {}, ...columns.map((column) => sortHead(column, sorted, onsort)))];
  };

  /** What the search looks at. */
  const searched = (row) => {
    const { title, backbone, authors, data, family } = row.system;
    return [row.name, title, backbone, authors, data, family].join("\n").toLowerCase();
  };

  const passes = (row, state) =>
    (!state.family || row.system.family === state.family)
    && (!state.badge || row.system.badge === state.badge)
    && (!state.class || row.system.trainingClass === state.class)
    && state.q.toLowerCase().split(/\s+/).every((word) => row.searched.includes(word));

  Object.assign(window.msshift, { tableColumns: columnsOf, tableHeader: header, tableSearched: searched,
    tablePasses: passes });
})();
