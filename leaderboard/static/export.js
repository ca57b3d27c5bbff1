// What a reader takes away: files, LaTeX, the clipboard.
(() => {
  "use strict";
  const { make } = window.msshift;

  /** Without the noise of adding in binary: 0.3462, not 0.34619999999999995. */
  const plainNumber = (value) => Number(value.toPrecision(12));

  /** A text of a stranger must not become a formula of the spreadsheet that opens it. */
  const csvCell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(plainNumber(value));
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };

  const csv = (header, rows) =>
    [header, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";

  const LATEX = {
    "%": "\\%", _: "\\_", "&": "\\&", "#": "\\#", $: "\\$", "{": "\\{", "}": "\\}",
    "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "\\": "\\textbackslash{}",
    "<": "$<$", ">": "$>$",
  };
  const escape = (text) => text.replace(/[%_&#${}~^\\<>]/g, (found) => LATEX[found]);

  const latex = (header, rows, caption, names) => {
    const line = (cells) => `${cells.map(escape).join(" & ")} \\\\`;
    const columns = "l".repeat(names) + "r".repeat(header.length - names);
    return [
      "\\begin{table}", "\\centering", `\\begin{tabular}{${columns}}`, "\\toprule", line(header),
      "\\midrule", ...rows.map(line), "\\bottomrule", "\\end{tabular}",
      `\\caption{${escape(caption)}}`, "\\end{table}", "",
    ].join("\n");
  };

  const download = (name, type, content) => {
    const url = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
    make("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };

  const copy = async (button, source) => {
    const text = source instanceof HTMLTextAreaElement ? source.value : source.textContent ?? "";
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Browsers may forbid it; a selection is one keystroke away from a copy.
      if (source instanceof HTMLTextAreaElement) source.select();
      else getSelection()?.selectAllChildren(source);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = label; }, 2500);
  };

  for (const button of document.querySelectorAll("[data-copy]")) {
    const source = button.closest("dialog")?.querySelector("textarea") ?? button.previousElementSibling;
    button.addEventListener("click", () => copy(button, source));
  }
  for (const button of document.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => button.closest("dialog")?.close());
  }
  Object.assign(window.msshift, { csv, plainNumber, latex, download });
})();
