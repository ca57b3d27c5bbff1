// Effectiveness against robustness, drawn by Chart.js. The table holds the same numbers as text.
(() => {
  "use strict";
  const { find, make, colour, chartFont, chartLabels, percent, short } = window.msshift;
  const { Chart } = window;
  const SHAPES = ["circle", "rect", "triangle", "rectRot", "star", "crossRot", "rectRounded"];
  const LABELLED = 30;
  let chart = null;

  const points = (rows, effect) => rows
    .filter((row) => row.cells.mean?.rel_loss && row.cells.mean[effect])
    .map((row) => ({
      x: row.cells.mean[effect][0],
      y: row.cells.mean.rel_loss[0],
      row,
      front: row.front.includes(effect),
      text: `${row.system.title}: ${row.cells.mean[effect][1]}, loses ${row.cells.mean.rel_loss[1]}`,
    }));

  /** The upright line at a system's score: nothing where it has none. */
  const lineOf = (row, effect, ink) => {
    const cell = row?.cells.mean?.[effect];
    return cell ? { x: cell[0], name: `${row.system.title} ${cell[1]}`, colour: ink } : null;
  };

  /** Draw the rows that are shown; `effect` is the figure on the x axis, `reference` the row of the line. */
  window.msshift.drawScatter = (head, measure, rows, effect, reference) => {
    const canvas = find("#chart");
    const shown = points(rows, effect);
    chart?.destroy();
    chart = null;
    if (!shown.length) return;
    const { title, higherIsBetter } = head.measures[measure];
    const front = shown.filter((point) => point.front).sort((a, b) => a.x - b.x);
    const families = [...new Set(shown.map((point) => point.row.system.family))].sort();
    const few = shown.length <= LABELLED;
    const ink = colour("--ink-2");
    const font = chartFont();
    const line = lineOf(reference, effect, colour("--ink-3"));
    const all = [...shown.map((point) => point.x), ...(line ? [line.x] : [])];
    const [least, most] = [Math.min(...all), Math.max(...all)];
    const room = 0.05 * (most - least);
    const axis = (text) => ({
      title: { display: true, text, color: ink, font },
      grid: { color: colour("--line"), drawTicks: false },
      border: { display: false },
      ticks: { color: ink, font, padding: 8, maxTicksLimit: 7 },
    });
    chart = new Chart(canvas, {
      type: "scatter",
      plugins: [chartLabels],
      data: {
        datasets: [
          {
            label: "Pareto front", data: front, showLine: true, borderColor: colour("--accent"),
            borderWidth: 1.5, borderDash: [4, 4], pointRadius: 0, pointHitRadius: 0, pointStyle: "line",
          },
          ...families.map((family, number) => ({
            label: family,
            data: shown.filter((point) => point.row.system.family === family),
            pointStyle: SHAPES[number % SHAPES.length],
            pointRadius: 6, pointHoverRadius: 8, borderWidth: 1.5,
            borderColor: colour(`--series-${number % 7}`),
            backgroundColor: `${colour(`--series-${number % 7}`)}cc`,
          })),
        ],
      },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false,
        layout: { padding: { top: 12, right: 16 } },
        scales: {
          x: { ...axis(`${head.figures[effect]}, ${title}`), reverse: !higherIsBetter, suggestedMin: least - room, suggestedMax: most + room },
          y: { ...axis("Rel Loss"), reverse: true, grace: "12%" },
        },
        plugins: {
          legend: { position: "bottom", labels: { color: ink, font, usePointStyle: true, boxHeight: 7, padding: 18 } },
          tooltip: { callbacks: { label: (item) => item.raw.text } },
          labels: {
            name: (point, dataset) => (dataset && (few || point.front) ? point.row.system.title.slice(0, 40) : ""),
            must: (point) => point.front,
            path: 0,
            ink: colour("--ink"), font: `500 ${font.size}px ${font.family}`, line,
          },
        },
      },
    });
    const scaled = title.includes("100");
    chart.options.scales.x.ticks.callback = (value) =>
      short(scaled ? 100 * value : value);
    chart.options.scales.y.ticks.callback = percent;
    chart.update();
    canvas.setAttribute("aria-label",
      `Scatter of ${shown.length} systems by ${head.figures[effect]} and Rel Loss${line ? `, with a line at ${line.name}` : ""}; the table above holds the same numbers.`);
    const list = find("#front");
    list.replaceChildren(front.length ? "On the front: " : "");
    front.reverse().forEach((point, number) => {
      const focus = (on) => {
        const dataset = 1 + families.indexOf(point.row.system.family);
        const index = chart.data.datasets[dataset].data.findIndex((one) => one.row === point.row);
        const active = on ? [{ datasetIndex: dataset, index }] : [];
        chart.setActiveElements(active);
        chart.tooltip.setActiveElements(active, { x: 0, y: 0 });
        chart.update();
      };
      list.append(number ? ", " : "", make("a", {
        href: `${document.body.dataset.base}systems/${point.row.name}.html`, text: point.row.system.title,
        onfocus: () => focus(true), onblur: () => focus(false),
      }), ` (${point.row.cells.mean[effect][1]}, ${point.row.cells.mean.rel_loss[1]})`);
    });
  };
})();
