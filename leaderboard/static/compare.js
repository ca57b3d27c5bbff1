// Two to four systems side by side, and the significance of what sets them apart.
(() => {
  "use strict";
  const { make, find, get, load, state: stateOf, cellOf, badgeOf } = window.msshift;
  const head = get("board");
  const controls = find("#controls");
  const NUMBERS = [1, 2, 3, 4];
  const FACTS = {
    family: "Family", trainingClass: "Training", backbone: "Backbone", candidates: "Candidates", data: "Trained on", hardNegatives: "Hard negatives",
    distillation: "Distillation", hardware: "Hardware", authors: "Authors", licence: "Licence", version: "Version",
  };
  const shifts = head.shifts.filter((one) => one.name !== "all");
  const state = stateOf({ systems: "", shift: shifts[0]?.name ?? "", measure: "" }, () => show());

  const shiftOf = () => shifts.find((one) => one.name === state.get().shift) ?? shifts[0];
  const measureOf = () => {
    const { measures } = shiftOf();
    return measures.includes(state.get().measure) ? state.get().measure : measures[0];
  };
  const chosen = () => [...new Set(state.get().systems.split(","))].filter((name) => name in head.systems).slice(0, NUMBERS.length);

  const table = (header, rows, caption, grouped) => make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    make("table", { class: "plain" }, make("caption", { text: caption }),
      make("thead", {}, make("tr", {}, ...header)),
      make("tbody", {}, ...rows.map((cells) => 
        make("tr", { class: grouped && (cells[0].childNodes.length ? "first" : "next") }, ...cells)))));
  const link = (name) => make("a", { href: `${document.body.dataset.base}systems/${name}.html`, text: head.systems[name].title });
  const rowHead = (text) => make("th", { scope: "row", text });

  const figuresOf = (names, values) => {
    const header = [make("th", { scope: "col", text: "Group" }), make("th", { scope: "col", text: "" }),
      ...names.map((name) => make("th", { scope: "col", class: "num" }, link(name)))];
    const rows = values.columns.flatMap((column) => Object.entries(head.figures).map(([figure, title], number) => [
      number ? make("td") : rowHead(column.name === "mean" ? "mean" : `${column.name}, ${column.description}`),
      make("td", { text: title }),
      ...names.map((name) => cellOf(values.rows[name]?.cells[column.name]?.[figure], { figure, scale: null })),
    ]));
    return table(header, rows, `${shiftOf().title}, ${head.measures[measureOf()].title}`, true);
  };

  const differencesOf = (names, pairs) => {
    const parts = [];
    for (const [number, first] of names.entries()) {
      for (const second of names.slice(number + 1)) {
        const found = pairs.find(({ a, b }) => (a === first && b === second) || (a === second && b === first));
        if (!found) {
          parts.push(make("p", { class: "note" }, link(first), " and ", link(second),
            ": cannot be tested. It takes per-query scores of both on the same test set, and models trained per group."));
          continue;
        }
        const header = ["Group", "Difference", "Interval", `p (${found.correction})`].map((text, at) =>
          make("th", { scope: "col", class: at ? "num" : null, text }));
        const rows = found.rows.map((row) => [
          rowHead(row.name),
          make("td", { class: "num", "data-value": row.value, text: row.text }),
          make("td", { class: "num", text: row.interval || "–" }),
          make("td", { class: row.apart ? "num apart" : "num", "data-value": row.p, text: row.p_text }),
        ]);
        const title = (name) => head.systems[name].title;
        parts.push(table(header, rows, `Rel Loss of ${title(found.a)} minus Rel Loss of ${title(found.b)}`));
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
    controls.elements.shift.replaceChildren(...shifts.map((one) => make("option", { value: one.name, text: one.title })));
    controls.elements.shift.value = shiftOf().name;
    controls.elements.measure.replaceChildren(...shiftOf().measures.map((value) =>
      make("option", { value, text: head.measures[value].mean })));
    controls.elements.measure.value = measureOf();
  };

  const show = async () => {
    showControls();
    const names = chosen();
    const key = `${shiftOf().name}/${measureOf()}`;
    const enough = names.length > 1;
    for (const section of document.querySelectorAll("#app section")) section.hidden = !enough;
    find("#count").textContent = enough ? `${names.length} systems` : "Choose two systems or more.";
    if (!enough) return;
    const values = await load(`table/${key}`, `tables/${head.files[key]}`);
    const pairs = head.pairs.includes(key) ? await load(`pairs/${key}`, `pairs/${head.files[key]}`) : [];
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
