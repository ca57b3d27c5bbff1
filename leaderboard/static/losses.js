// What a system loses on each group, with intervals, drawn by Chart.js. The table holds the numbers.
(() => {
  "use strict";
  const { colour, chartFont, percent } = window.msshift;
  const { Chart } = window;
  let chart = null;
  let canvas = null;

  const draw = () => {
    chart?.destroy();
    chart = null;
    if (!canvas) return;
    const rows = JSON.parse(canvas.dataset.losses);
    const [accent, ink] = [colour("--accent"), colour("--ink-2")];
    canvas.parentElement.style.height = `${2.75 * rows.length + 2.75}rem`;
    const font = chartFont();
    const names = rows.map((row) => row.name);
    const filled = (row) => row.significant || row.name === "mean";
    const category = { type: "category", offset: true, grid: { display: false }, border: { display: false } };
    chart = new Chart(canvas, {
      data: {
        labels: names,
        datasets: [
          {
            type: "line", data: rows.map((row) => ({ x: row.value, y: row.name })), showLine: false,
            pointStyle: rows.map((row) => (row.name === "mean" ? "rectRot" : "circle")),
            pointRadius: rows.map((row) => (row.name === "mean" ? 7 : 5)), pointHoverRadius: 8,
            pointBorderColor: accent, pointBorderWidth: 2, pointHoverBorderWidth: 2,
            pointBackgroundColor: rows.map((row) => (filled(row) ? accent : colour("--surface"))),
          },
          {
            type: "bar", data: rows.map((row) => ({ x: [row.low ?? row.value, row.high ?? row.value], y: row.name })),
            barThickness: 2, backgroundColor: `${accent}99`,
          },
        ],
      },
      options: {
        indexAxis: "y", animation: false, responsive: true, maintainAspectRatio: false,
        interaction: { mode: "index", axis: "y", intersect: false },
        scales: {
          x: {
            suggestedMin: 0, grace: "4%", border: { display: false },
            grid: {
              drawTicks: false,
              color: (context) => colour(context.tick?.value === 0 ? "--ink-3" : "--line"),
            },
            ticks: { color: ink, font, padding: 8, maxTicksLimit: 7, callback: percent },
          },
          y: { ...category, ticks: { color: ink, font } },
          texts: { ...category, position: "right", labels: rows.map((row) => row.text), ticks: { color: colour("--ink"), font: { ...font, weight: 560 } } },
        },
        plugins: {
          legend: { display: false },
          tooltip: {
            filter: (item) => item.datasetIndex === 0,
            callbacks: { label: (item) => `${rows[item.dataIndex].text} ${rows[item.dataIndex].interval}` },
          },
        },
      },
    });
    const said = rows.map((row) => `${row.name} ${row.text} ${row.interval}`.trim());
    canvas.setAttribute("aria-label", `Rel Loss by group: ${said.join(", ")}.`);
  };

  document.addEventListener("panelchange", () => {
    canvas = document.querySelector(".panel:not([hidden]) .losses canvas");
    draw();
  });
  document.addEventListener("themechange", draw);
})();
