(() => {
  "use strict";
  const { name, digest, columns, labels, pairs } = JSON.parse(document.getElementById("sheet").textContent);
  const KEY = `msshift-review-${digest}`;
  const by = (id) => document.getElementById(id);
  const state = { annotator: "", at: 0, labels: {} };
  const keyOf = (pair) => JSON.stringify([pair.test_id, pair.train_id]);
  const rowOf = new Map(pairs.map((pair, row) => [keyOf(pair), row]));

  /** Storage may be forbidden; then only the CSV file keeps what was judged. */
  const keep = () => {
    try {
      localStorage.setItem(KEY, JSON.stringify(state));
      return true;
    } catch {
      return false;
    }
  };
  const restore = () => {
    try {
      Object.assign(state, JSON.parse(localStorage.getItem(KEY)) ?? {});
    } catch {
      // Nothing was kept.
    }
    state.at = Math.min(Math.max(Math.trunc(state.at) || 0, 0), pairs.length - 1);
  };

  const say = (text, problem = false) => {
    by("said").textContent = text;
    by("said").classList.toggle("problem", problem);
  };
  const judged = () => Object.keys(state.labels).length;

  const buttons = Object.entries(labels).map(([label, when], number) => {
    const button = document.createElement("button");
    const key = document.createElement("kbd");
    const small = document.createElement("small");
    button.type = "button";
    button.dataset.label = label;
    key.textContent = String(number + 1);
    small.textContent = ` ${when}`;
    button.append(key, label, small);
    button.addEventListener("click", () => judge(label));
    by("labels").append(button);
    return button;
  });

  const show = () => {
    const pair = pairs[state.at];
    by("test").textContent = pair.test_text;
    by("train").textContent = pair.train_text;
    by("context").textContent = pair.context.replaceAll(" | ", "\n");
    by("more").hidden = !pair.context;
    by("place").textContent = `Pair ${state.at + 1} of ${pairs.length}, ${judged()} judged`;
    by("done").max = pairs.length;
    by("done").value = judged();
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.label === state.labels[state.at]));
    }
  };

  const changed = (text) => {
    show();
    if (keep()) {
      say(text);
    } else {
      say(`${text}. This browser keeps nothing: press s to save the file.`, true);
    }
  };
  const go = (row) => {
    state.at = Math.min(Math.max(row, 0), pairs.length - 1);
    changed(`Pair ${state.at + 1}: ${state.labels[state.at] ?? "no label yet"}`);
  };
  const judge = (label) => {
    const row = state.at;
    state.labels[row] = label;
    state.at = Math.min(row + 1, pairs.length - 1);
    const left = pairs.length - judged();
    changed(`Pair ${row + 1} is ${label}${left ? "" : ": every pair is judged, press s to save"}`);
  };
  const clear = () => {
    delete state.labels[state.at];
    changed(`Pair ${state.at + 1} has no label`);
  };
  const next = () => {
    for (let step = 1; step <= pairs.length; step += 1) {
      const row = (state.at + step) % pairs.length;
      if (!(row in state.labels)) return go(row);
    }
    return say("Every pair is judged; press s to save");
  };

  const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const save = () => {
    if (!state.annotator) {
      by("annotator").focus();
      say("Type your name first, then Enter", true);
      return;
    }
    const lines = pairs.map((pair, row) =>
      columns
        .map((column) => {
          if (column === "annotator") return state.annotator;
          return column === "label" ? state.labels[row] ?? "" : pair[column];
        })
        .map(cell)
        .join(","),
    );
    const link = document.createElement("a");
    const file = new Blob([[columns.join(","), ...lines, ""].join("\n")], { type: "text/csv" });
    link.href = URL.createObjectURL(file);
    link.download = `${name}-${state.annotator.replace(/[^\p{L}\p{N}_-]+/gu, "-")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    say(`Saved ${link.download}: ${judged()} of ${pairs.length} pairs are judged`);
  };

  /** Return the rows of a CSV file, cells as text. */
  const parse = (text) => {
    const rows = [[""]];
    let quoted = false;
    for (let at = 0; at < text.length; at += 1) {
      const letter = text[at];
      const row = rows.at(-1);
      if (quoted) {
        if (letter !== '"') row[row.length - 1] += letter;
        else if (text[at + 1] === '"') row[row.length - 1] += text[(at += 1)];
        else quoted = false;
      } else if (letter === '"') quoted = true;
      else if (letter === ",") row.push("");
      else if (letter === "\n") rows.push([""]);
      else if (letter !== "\r") row[row.length - 1] += letter;
    }
    return rows.filter((row) => row.length > 1 || row[0]);
  };
  const load = (text) => {
    const [head, ...rows] = parse(text.replace(/^\uFEFF/, ""));
    const place = Object.fromEntries((head ?? []).map((column, number) => [column, number]));
    const lacking = ["test_id", "train_id", "label"].filter((column) => !(column in place));
    if (lacking.length) return say(`This file has no column ${lacking.join(", ")}`, true);
    const found = {};
    const names = new Set();
    for (const row of rows) {
      const pair = { test_id: row[place.test_id], train_id: row[place.train_id] };
      const label = (row[place.label] ?? "").trim().toLowerCase();
      if (!rowOf.has(keyOf(pair))) {
        return say(`This file judges another pair: ${pair.test_id} and ${pair.train_id}`, true);
      }
      if (label && label !== "untyped" && !(label in labels)) {
        return say(`This file has an unknown label: ${label}`, true);
      }
      if (label) found[rowOf.get(keyOf(pair))] = label;
      if (row[place.annotator]) names.add(row[place.annotator]);
    }
    if (names.size > 1) return say(`This file is of ${[...names].join(" and ")}; open one of them`, true);
    state.labels = found;
    state.annotator = [...names][0] ?? state.annotator;
    by("annotator").value = state.annotator;
    changed(`${judged()} of ${pairs.length} pairs are judged in this file`);
    return undefined;
  };

  by("annotator").addEventListener("input", (event) => {
    state.annotator = event.target.value.trim();
    keep();
  });
  by("annotator").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") event.target.blur();
  });
  by("file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) load(await file.text());
    event.target.value = "";
  });

  const commands = {
    back: () => go(state.at - 1),
    on: () => go(state.at + 1),
    next,
    clear,
    save,
    load: () => by("file").click(),
  };
  for (const [id, command] of Object.entries(commands)) by(id).addEventListener("click", command);
  const KEYS = { ArrowLeft: "back", ArrowRight: "on", n: "next", 0: "clear", Backspace: "clear", s: "save", o: "load" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === by("annotator")) return;
    const command = KEYS[event.key];
    const label = Object.keys(labels)[Number(event.key) - 1];
    if (!command && !label) return;
    event.preventDefault();
    if (command) commands[command]();
    else judge(label);
  });

  restore();
  by("annotator").value = state.annotator;
  show();
  say(judged() ? `Welcome back: ${judged()} of ${pairs.length} pairs are judged` : "Press 1 to 5");
})();
