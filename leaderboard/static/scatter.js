// Effectiveness against robustness, drawn by Chart.js. The table holds the same numbers as text.
(() => {
  "use strict";
  const { find, make, colour, chartFont, percent, short } = window.msshift;
  const { Chart, ChartDataLabels } = window;
  Chart.register(ChartDataLabels);
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

  /** Where a label stands: away from the nearest other point. */
  const side = (all, point) => {
    const span = (axis) => {
      const values = all.map((one) => one[axis]);
      return Math.max(...values) - Math.min(...values) || 1;
    };
    // A chart is about twice as wide as high, and labels are wide too.
    const [width, height] = [span("x") / 2, span("y")];
    const away = all.filter((one) => one !== point)
      .map((one) => ({ x: (point.x - one.x) / width, y: (point.y - one.y) / height }))
      .sort((a, b) => Math.hypot(a.x, a.y) - Math.hypot(b.x, b.y))[0];
    if (!away || Math.hypot(away.x, away.y) > 0.2) return "top";
    if (Math.abs(away.x) > Math.abs(away.y)) return away.x > 0 ? "right" : "left";
    return away.y > 0 ? "bottom" : "top";
  };

  /** Draw the rows that are shown; `effect` is the figure on the x axis. */
  window.msshift.drawScatter = (head, measure, rows, effect) => {
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
    const axis = (text) => ({
      title: { display: true, text, color: ink, font },
      grid: { color: colour("--line"), drawTicks: false },
      border: { display: false },
      ticks: { color: ink, font, padding: 8, maxTicksLimit: 7 },
    });
    chart = new Chart(canvas, {
      type: "scatter",
      data: {
        datasets: [
          {
            label: "Pareto front", data: front, showLine: true, borderColor: colour("--accent"),
            borderWidth: 1.5, borderDash: [4, 4], pointRadius: 0, pointHitRadius: 0, pointStyle: "line", datalabels: { display: false },
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
        layout: { padding: { top: 18, right: 34 } },
        scales: {
          x: { ...axis(`${head.figures[effect]}, ${title}`), reverse: !higherIsBetter, grace: "8%" },
          y: { ...axis("Rel Loss"), reverse: true, grace: "12%" },
        },
        plugins: {
          legend: { position: "bottom", labels: { color: ink, font, usePointStyle: true, boxHeight: 7, padding: 18 } },
          tooltip: { callbacks: { label: (item) => item.raw.text } },
          datalabels: {
            display: (context) =>
              few || context.dataset.data[context.dataIndex].front ? "auto" : false,
            formatter: (point) => point.row.system.title.slice(0, 40),
            align: (context) => (few ? side(shown, context.dataset.data[context.dataIndex]) : "top"),
            offset: 6, clamp: true, color: colour("--ink"), font: { ...font, weight: 500 },
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
      `Scatter of ${shown.length} systems by ${head.figures[effect]} and Rel Loss; the table above holds the same numbers.`);
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
