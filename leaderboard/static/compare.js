// Two to four systems side by side, and the significance of what sets them apart.
(() => {
  "use strict";
  const { make, find, get, load, state: stateOf, cellOf, badgeOf } = window.msshift;
  const head = get("board");
  const controls = find("#controls");
  const NUMBERS = [1, 2, 3, 4];
  const FACTS = {
    family: "Family", trainingClass: "Training", backbone: "Backbone", size: "Parameters", year: "Year", candidates: "Candidates", data: "Trained on", hardNegatives: "Hard negatives",
    distillation: "Distillation", hardware: "Hardware", authors: "Authors", licence: "Licence", version: "Version",
  };
  const shifts = head.shifts.filter((one) => one.name !== "all");
  const state = stateOf({ systems: "", shift: "", measure: "" }, () => show());

  const chosen = () => [...new Set(state.get().systems.split(","))].filter((name) => name in head.systems).slice(0, NUMBERS.length);
  const having = (shift) => chosen().filter((name) => head.systems[name].shifts.includes(shift.name));

  /** The shifts that can be shown: those with results of two chosen systems, or all while fewer are chosen. */
  const offered = () => (chosen().length > 1 ? shifts.filter((one) => having(one).length > 1) : shifts);

  /** The shift of the address, or else the first with results of the most chosen systems. */
  const shiftOf = () => {
    const given = offered().find((one) => one.name === state.get().shift);
    const most = Math.max(...offered().map((one) => having(one).length));
    return given ?? offered().find((one) => having(one).length === most);
  };
  const measureOf = () => {
    const { measures } = shiftOf();
    return measures.includes(state.get().measure) ? state.get().measure : measures[0];
  };

  const table = (header, rows, caption, grouped) => make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    make("table", { class: "plain" }, make("caption", { text: caption }),
      make("thead", {}, make("tr", {}, ...header)),
      make("tbody", {}, ...rows.map((cells) =>
        make("tr", { class: grouped && (cells[0].hasAttribute("rowspan") ? "first" : "next") }, ...cells)))));
  const link = (name) => make("a", { href: `${document.body.dataset.base}systems/${name}.html`, text: head.systems[name].title });
  const rowHead = (text) => make("th", { scope: "row", text });

  const figuresOf = (names, values) => {
    const header = [make("th", { scope: "col", text: "Group" }), make("th", { scope: "col", text: "" }),
      ...names.map((name) => make("th", { scope: "col", class: "num" }, link(name)))];
    const figures = Object.entries(head.figures);
    const groupHead = ({ name, description }) => make("th", { scope: "rowgroup", rowspan: figures.length }, name, make("small", { text: description }));
    const rows = values.columns.flatMap((column) => figures.map(([figure, title], number) => [
      ...(number ? [] : [groupHead(column)]),
      make("td", { class: "figure", text: title }),
      ...names.map((name) => cellOf(values.rows[name]?.cells[column.name]?.[figure], { figure, scale: null })),
    ]));
    return table(header, rows, `${shiftOf().title}, ${head.measures[measureOf()].title}`, true);
  };

  /** Why two systems cannot be tested against each other. */
  const untested = (names) => {
    const without = names.filter((name) => !having(shiftOf()).includes(name));
    const reported = names.filter((name) => head.systems[name].badge === "reported");
    const titles = (some) => some.map((name) => head.systems[name].title).join(" and ");
    if (without.length) return `${titles(without)}: no results on ${shiftOf().title.toLowerCase()}.`;
    if (reported.length) return `${titles(reported)}: taken from a paper, which gives no scores per query.`;
    return "They were scored on different test sets, one was trained on test queries, or they are not among the systems with the best Out.";
  };

  const differencesOf = (names, pairs) => {
    const parts = [];
    for (const [number, first] of names.entries()) {
      for (const second of names.slice(number + 1)) {
        const found = pairs.find(({ a, b }) => (a === first && b === second) || (a === second && b === first));
        if (!found) {
          parts.push(make("p", { class: "note" }, link(first), " and ", link(second), ` cannot be tested. ${untested([first, second])}`));
          continue;
        }
        const figures = Object.keys(found.figures);
        const header = [make("th", { scope: "col", text: "Group" }), ...figures.flatMap((figure) =>
          [head.figures[figure], "Interval", `p (${found.correction})`].map((text) => make("th", { scope: "col", class: "num", text })))];
        const rows = found.figures[figures[0]].map(({ name }, at) => [
          rowHead(name),
          ...figures.flatMap((figure) => {
            const row = found.figures[figure][at];
            return [
              make("td", { class: "num", "data-figure": figure, "data-value": row.value, text: row.text }),
              make("td", { class: "num", text: row.interval || "–" }),
              make("td", { class: row.apart ? "num apart" : "num", "data-value": row.p, text: row.p_text }),
            ];
          }),
        ]);
        const title = (name) => head.systems[name].title;
        parts.push(table(header, rows, `${title(found.a)} minus ${title(found.b)}, ${head.measures[measureOf()].title}`));
        if (!found.figures.rel_loss) {
          const untrained = [found.a, found.b].filter((name) => !head.systems[name].perGroup);
          parts.push(make("p", { class: "about", text: untrained.length
            ? `${untrained.map(title).join(" and ")}: not trained per group, so there is no Rel Loss to compare. Only Out is tested.`
            : "A Rel Loss is undefined, or not among those that are compared. Only Out is tested." }));
        }
      }
    }
    return parts;
  };

  const factsOf = (names, values) => table(
    [make("td"), ...names.map((name) => make("th", { scope: "col" }, link(name)))],
    [
      [rowHead("Badge"), ...names.map((name) => make("td", {}, badgeOf(head.systems[name].badge, head.badges[head.systems[name].badge])))],
      [rowHead("Caveats"), ...names.map((name) => make("td", { class: "prose", text: values.rows[name]?.notes.join("; ") || "–" }))],
      ...Object.entries(FACTS).map(([key, title]) => [rowHead(title),
        ...names.map((name) => make("td", { class: "prose", text: head.systems[name][key] || "–" }))]),
    ], "What they are");

  const showControls = () => {
    const names = chosen();
    const systems = Object.entries(head.systems).sort(([, a], [, b]) => (a.title < b.title ? -1 : 1));
    for (const number of NUMBERS) {
      const select = controls.elements[`system${number}`];
      if (!select.options.length) {
        select.append(make("option", { value: "", text: "–" }),
          ...systems.map(([value, system]) => make("option", { value, text: system.title })));
      }
      select.value = names[number - 1] ?? "";
    }
    controls.elements.shift.replaceChildren(...offered().map((one) => make("option", { value: one.name, text: one.title })));
    controls.elements.shift.disabled = controls.elements.measure.disabled = !offered().length;
    controls.elements.measure.replaceChildren();
    if (!offered().length) return;
    controls.elements.shift.value = shiftOf().name;
    controls.elements.measure.replaceChildren(...shiftOf().measures.map((value) =>
      make("option", { value, text: head.measures[value].mean })));
    controls.elements.measure.value = measureOf();
  };

  const noneShared = (names) => {
    const held = names.map((name) => {
      const own = shifts.filter((one) => head.systems[name].shifts.includes(one.name)).map((one) => one.title.toLowerCase());
      return `${head.systems[name].title}: ${own.join(", ") || "no results by group"}`;
    });
    return `No shift has results of two of these systems. ${held.join("; ")}.`;
  };

  const show = async () => {
    showControls();
    const names = chosen();
    const enough = names.length > 1 && offered().length > 0;
    for (const section of document.querySelectorAll("#app section")) section.hidden = !enough;
    find("#count").textContent = enough
      ? `${having(shiftOf()).length} of ${names.length} systems have results on ${shiftOf().title.toLowerCase()}${names
        .filter((name) => !having(shiftOf()).includes(name)).map((name) => `, not ${head.systems[name].title}`).join("")}.`
      : names.length > 1 ? noneShared(names) : "Choose two systems or more.";
    if (!enough) return;
    const key = `${shiftOf().name}/${measureOf()}`;
    const values = await load(`table/${key}`, `tables/${head.files[key]}`);
    const pairs = head.pairs.includes(key) ? await load(`pairs/${key}`, `pairs/${head.files[key]}`) : [];
    if (key !== `${shiftOf()?.name}/${shiftOf() && measureOf()}` || names.join() !== chosen().join()) return;
    find("#figures").replaceChildren(figuresOf(names, values));
    find("#differences").replaceChildren(...differencesOf(names, pairs));
    find("#facts").replaceChildren(factsOf(names, values));
  };

  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("change", () => {
    const names = NUMBERS.map((number) => controls.elements[`system${number}`].value).filter(Boolean);
    state.set({ systems: [...new Set(names)].join(","), shift: controls.elements.shift.value, measure: controls.elements.measure.value });
    show();
  });
  if (shifts.length) {
    find("#app").hidden = false;
    show();
  }
})();
