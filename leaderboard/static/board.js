// A board's page: reads the state from the address, shows the table and the scatter, writes it back.
(() => {
  "use strict";
  const { make, find, sortedBy, sortRows, calmly, get, load, state: stateOf, csv, plainNumber, latex, download } = window.msshift;
  const { tableColumns, tableHeader, tableSearched, tablePasses, drawScatter } = window.msshift;
  const head = get("board");
  const MOST_COMPARED = 4;
  const DEFAULTS = {
    shift: head.shifts[0].name, measure: "", figure: "rel_loss", sort: "out", dir: "", q: "",
    family: "", badge: "", class: "", intervals: "1", compare: "", effect: "out",
  };
  const state = stateOf(DEFAULTS, () => show());
  const controls = find("#controls");
  const filters = find("#filters");
  /** Below this width the table comes first, and the filters open when they are asked for. */
  const narrow = matchMedia("(max-width: 40rem)");
  /** What is on the page: set by `show`. */
  let shown = { rows: [], columns: [], table: null };

  const shiftOf = () => head.shifts.find((one) => one.name === state.get().shift) ?? head.shifts[0];
  const measureOf = () => {
    const { measures } = shiftOf();
    return measures.includes(state.get().measure) ? state.get().measure : measures[0];
  };
  const figureOf = () => (state.get().figure in head.figures ? state.get().figure : DEFAULTS.figure);
  const chosen = () => state.get().compare.split(",").filter((name) => name in head.systems);

  const fillControls = () => {
    const systems = Object.values(head.systems);
    const values = { family: "family", badge: "badge", class: "trainingClass" };
    for (const [name, key] of Object.entries(values)) {
      const options = [...new Set(systems.map((system) => system[key]))].sort();
      controls.elements[name].append(...options.map((value) => make("option", { value, text: value })));
    }
  };

  const showControls = () => {
    const { q, family, badge, class: trained, intervals, effect } = state.get();
    find(`#shifts [value="${CSS.escape(shiftOf().name)}"]`).checked = true;
    find(`#controls [name=figure][value="${figureOf()}"]`).checked = true;
    find(`#scatter [value="${effect === "avg_in" ? "avg_in" : "out"}"]`).checked = true;
    controls.elements.measure.replaceChildren(...shiftOf().measures.map((value) =>
      make("option", { value, text: head.measures[value].mean, selected: value === measureOf() })));
    controls.elements.measure.value = measureOf();
    if (controls.elements.q.value !== q) controls.elements.q.value = q;
    controls.elements.family.value = family;
    controls.elements.badge.value = badge;
    controls.elements.class.value = trained;
    controls.elements.intervals.checked = intervals === "1";
    countFilters();
  };

  /** Say how many filters are on, where they are folded away. */
  const countFilters = () => {
    const on = ["q", "family", "badge", "class"].filter((name) => state.get()[name]).length;
    find("#filters-count").textContent = on ? ` (${on} on)` : "";
  };

  /** Load the table of the present shift and measure, and show it. */
  const show = async () => {
    const shift = shiftOf();
    const measure = measureOf();
    showControls();
    const table = await load(`table/${shift.name}/${measure}`, `tables/${head.files[`${shift.name}/${measure}`]}`);
    if (shiftOf() !== shift || measureOf() !== measure) return;
    const rows = Object.entries(table.rows).map(([name, row]) => {
      const one = { ...row, name, system: head.systems[name] };
      one.searched = tableSearched(one);
      return one;
    });
    shown = { rows, table };
    const caption = `${head.board.title}, ${shift.title}, ${head.measures[measure].title}`;
    for (const one of document.querySelectorAll("table.board caption")) one.textContent = caption;
    find("#about").textContent = shift.name === "all"
      ? `Means over shifts, for systems that have all of them; ${head.measures[measure].title}.`
      : `${head.measures[measure].title} on ${shift.description}; each group is held out of training in turn.`;
    build();
  };

  /** Make the columns and rows anew: what they hold has changed. */
  const build = () => {
    const view = { intervals: state.get().intervals === "1", chosen: chosen(), oncompare: choose };
    shown.columns = tableColumns(head, shown.table, figureOf(), shown.rows, view);
    for (const row of shown.rows) {
      row.element = make("tr", { "data-system": row.name, class: row.name === head.reference && "reference" }, ...shown.columns.map((column) => column.cell(row)));
    }
    arrange();
  };

  /** Order and filter the rows that there are. */
  const arrange = () => {
    const now = state.get();
    const sorted = sortedBy(shown.columns, now, DEFAULTS.sort);
    sortRows(shown.rows, sorted, (row) => row.name);
    const passing = new Set(shown.rows.filter((row) => tablePasses(row, now)));
    shown.visible = shown.rows.filter((row) => row.name === head.reference || passing.has(row));
    const focused = document.activeElement?.closest("thead [data-sort]");
    const section = focused?.closest("table")?.id;
    const id = focused?.dataset.sort;
    for (const [table, onTest] of [["#systems", false], ["#systems-on-test", true]]) {
      const rows = shown.visible.filter((row) => row.system.onTest === onTest);
      find(`${table} thead`).replaceChildren(...tableHeader(shown.columns, head, shown.table, figureOf(), sorted, onSort));
      find(`${table} tbody`).replaceChildren(...rows.map((row) => row.element));
    }
    if (section) find(`#${section} [data-sort="${CSS.escape(id ?? "")}"]`).focus();
    find("#on-test").hidden = !shown.visible.some((row) => row.system.onTest);
    const total = shown.rows.length;
    const count = passing.size;
    find("#count").textContent = `${count === total ? "" : `${count} of `}${total} system${total === 1 ? "" : "s"}`;
    countFilters();
    showChosen();
    drawSoon();
    document.body.getBoundingClientRect();
    performance.mark("table-shown");
  };

  /** What the scatter shows: it is drawn after the table, and not again for another order of it. */
  let drawn = "";
  const draw = () => {
    const rows = shown.visible.filter((row) => !row.system.onTest);
    const effect = find("#scatter [name=effect]:checked").value;
    const { shift, measure } = shown.table;
    const key = [shift, measure, effect, document.documentElement.dataset.theme, ...rows.map((row) => row.name).sort()].join("\n");
    find("#scatter").hidden = !rows.some((row) => row.cells.mean?.rel_loss);
    if (key === drawn) return;
    drawn = key;
    drawScatter(head, measure, rows, effect, rows.find((row) => row.name === head.reference));
  };
  const drawSoon = calmly(() => requestIdleCallback(() => { if (shown.table) draw(); }, { timeout: 500 }), 60);

  const onSort = (chosen) => {
    state.set(chosen);
    arrange();
  };

  const choose = (name, on) => {
    const others = chosen().filter((one) => one !== name);
    state.set({ compare: (on ? [...others, name].slice(-MOST_COMPARED) : others).join(",") });
    for (const box of document.querySelectorAll("table.board tbody input")) {
      box.checked = chosen().includes(box.value);
    }
    showChosen();
  };

  const showChosen = () => {
    const names = chosen();
    const link = find("#compare");
    link.hidden = names.length < 2;
    find("#pick").hidden = !link.hidden || shown.rows.length < 2;
    link.textContent = `Compare ${names.length} systems`;
    const given = new URLSearchParams({ systems: names.join(","), measure: measureOf() });
    if (shiftOf().name !== "all") given.set("shift", shiftOf().name);
    link.href = `${document.body.dataset.base}compare.html#${given}`;
  };

  /** The present view as a table of values: the rows that pass, in their order. */
  const exported = () => {
    const figures = Object.keys(head.figures);
    const groups = shown.table.columns.filter((one) => one.name !== "mean");
    const cells = [
      ...figures.map((figure) => ({ name: `mean ${figure}`, title: head.figures[figure], column: "mean", figure })),
      ...groups.map((one) => ({ name: `${one.name} ${figureOf()}`, title: one.name, column: one.name, figure: figureOf() })),
    ];
    return { cells, rows: shown.visible };
  };
  const fileName = () => `msshift-${head.board.id}-${head.files[`${shown.table.shift}/${shown.table.measure}`]}`;

  const toCsv = () => {
    const { cells, rows } = exported();
    const header = ["system", "title", "family", "badge", "training", "seeds", "leaked", "year", "parameters", "paper", "code", "rank", "range", "unranked",
      ...cells.flatMap((cell) => [cell.name, `${cell.name} low`, `${cell.name} high`])];
    const lines = rows.map((row) => [
      row.name, row.system.title, row.system.family, row.system.badge, row.system.trainingClass, row.seeds || null, row.leaked,
      row.system.year, row.system.parameters, row.system.paper, row.system.code, row.rank, row.range, row.unranked,
      ...cells.flatMap((cell) => {
        const found = row.cells[cell.column]?.[cell.figure] ?? [];
        return [found[0], found[2], found[3]];
      }),
    ]);
    download(`${fileName()}.csv`, "text/csv", csv(header, lines));
  };
  const toJson = () => {
    const { rows } = exported();
    const value = {
      board: head.board.id, shift: shown.table.shift, measure: shown.table.measure,
      rows: rows.map((row) => ({
        system: row.name, ...row.system, seeds: row.seeds, leaked: row.leaked, rank: row.rank, range: row.range ?? null, unranked: row.unranked ?? null,
        columns: Object.fromEntries(Object.entries(row.cells).map(([column, figures]) => [column,
          Object.fromEntries(Object.entries(figures).map(([figure, cell]) => [figure,
            { value: cell[0], low: cell[2] ?? null, high: cell[3] ?? null }]))])),
      })),
    };
    download(`${fileName()}.json`, "application/json", `${JSON.stringify(value, (_, one) => (typeof one === "number" ? plainNumber(one) : one), 1)}\n`);
  };
  const toLatex = () => {
    const { cells, rows } = exported();
    const lines = rows.map((row) => [row.system.title, ...cells.map((cell) => {
      const found = row.cells[cell.column]?.[cell.figure];
      return found ? `${found[1]}${(found[5] ?? 0) & 1 ? "*" : ""}` : "-";
    })]);
    const title = find("#systems caption").textContent;
    const dialog = find("#dialog");
    find("textarea", dialog).value = latex(["System", ...cells.map((cell) => cell.title)], lines,
      `${title}. By group: ${head.figures[figureOf()]}.`, 1);
    dialog.showModal();
    find("textarea", dialog).select();
  };

  find("#shifts").addEventListener("change", (event) => {
    state.set({ shift: event.target.value });
    show();
  });
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("input", (event) => {
    const { name, value, checked } = event.target;
    state.set({ [name]: name === "intervals" ? (checked ? "1" : "0") : value });
    if (name === "measure") show();
    else if (name === "figure" || name === "intervals") build();
    else arrange();
  });
  find("#scatter").addEventListener("change", (event) => {
    state.set({ effect: event.target.value });
    draw();
  });
  find("#csv").addEventListener("click", toCsv);
  find("#json").addEventListener("click", toJson);
  find("#latex").addEventListener("click", toLatex);
  document.addEventListener("themechange", drawSoon);

  const fold = () => { filters.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  find("#app").hidden = false;
  fillControls();
  show();
})();
