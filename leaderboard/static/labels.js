// Names beside the points of a chart, placed so that they cover neither each other nor a point.
(() => {
  "use strict";
  const GAP = 9;
  const HEIGHT = 15;
  const SIDES = [[0, -1], [1, 0], [-1, 0], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]];

  /** The area that two boxes share, in square pixels. */
  const overlap = (a, b) =>
    Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left))
    * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

  const boxAt = (x, y, width, [right, down]) => {
    const left = x + right * GAP + (width * (right - 1)) / 2;
    // To the side of a point a label stands level with it.
    const top = y + down * (right ? 0.7 : 1) * GAP + (HEIGHT * (down - 1)) / 2;
    return { left, top, right: left + width, bottom: top + HEIGHT };
  };

  const inside = (box, { left, top, right, bottom }) => ({
    ...box,
    left: Math.max(left, Math.min(box.left, right - (box.right - box.left))),
    right: Math.min(right, Math.max(box.right, left + (box.right - box.left))),
    top: Math.max(top, Math.min(box.top, bottom - HEIGHT)),
    bottom: Math.min(bottom, Math.max(box.bottom, top + HEIGHT)),
  });

  const markOf = ({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 });

  /** Where the name of an upright line stands: at its foot or head, on the side that covers least. */
  const lineBox = (x, width, { left, right, top, bottom }, marks) => {
    const boxes = [bottom - HEIGHT - 4, top + 4].flatMap((at) => [x + 5, x - 5 - width].map((start) =>
      ({ left: start, right: start + width, top: at, bottom: at + HEIGHT })));
    const covered = (box) => marks.reduce((sum, mark) => sum + overlap(box, mark), 0)
      + (box.left < left || box.right > right ? 1e6 : 0);
    return boxes.reduce((a, b) => (covered(b) < covered(a) ? b : a));
  };

  /** The texts of the points that have one, where they are and how wide. */
  const pointsOf = (chart, { name, must }) => chart.data.datasets.flatMap((dataset, number) => {
    const { data } = chart.getDatasetMeta(number);
    return dataset.data.map((raw, at) => ({ x: data[at].x, y: data[at].y, text: name(raw, number), must: must(raw) }));
  }).filter(({ text }) => text)
    .map((point) => ({ ...point, width: chart.ctx.measureText(point.text).width }));

  /** Small boxes along the line of a data set, which names had better not cross. */
  const pathOf = (chart, dataset) => {
    const points = chart.getDatasetMeta(dataset).data;
    return points.slice(1).flatMap((to, at) => {
      const from = points[at];
      const steps = Math.ceil(Math.hypot(to.x - from.x, to.y - from.y) / 6);
      return Array.from({ length: steps }, (_, step) => {
        const [x, y] = ["x", "y"].map((axis) => from[axis] + ((to[axis] - from[axis]) * step) / steps);
        return { left: x - 2, right: x + 2, top: y - 2, bottom: y + 2 };
      });
    });
  };

  /**
   * Give every point the place for its name that covers least. Those that `must` be named come first
   * and always get one; others only where they cover nothing that is `taken`. Names cross a `path`
   * only where every other place is worse.
   */
  const place = (points, area, taken, path) => {
    const placed = [];
    for (const point of [...points].sort((a, b) => Number(b.must) - Number(a.must))) {
      const boxes = SIDES.map((side) => {
        const box = inside(boxAt(point.x, point.y, point.width, side), area);
        const shared = (others) => others.reduce((sum, other) => sum + overlap(box, other), 0);
        const covered = shared(placed) + shared(taken);
        return { ...box, covered, cost: covered + shared(path), text: point.text };
      });
      const best = boxes.reduce((a, b) => (b.cost < a.cost ? b : a));
      if (point.must || best.covered === 0) placed.push(best);
    }
    return placed;
  };

  /**
   * A plug-in of Chart.js. Its options: `name` gives the text of a point from its raw value and its
   * data set ("" for none), `must` says whether it has to be named; `ink` and `font` are CSS; `line`
   * is an upright line { x, name, colour }, or null; `path` is the data set whose line names had
   * better not cross. The chart's `labelled` are the names drawn.
   */
  const chartLabels = {
    id: "labels",
    afterDatasetsDraw(chart, _, options) {
      const { ctx, chartArea } = chart;
      const { ink, font, line } = options;
      const write = ({ text, left, top }) => ctx.fillText(text, left, top + HEIGHT / 2);
      ctx.save();
      ctx.font = font;
      ctx.textBaseline = "middle";
      const points = pointsOf(chart, options);
      const taken = points.map(markOf);
      if (line) {
        const x = chart.scales.x.getPixelForValue(line.x);
        const box = lineBox(x, ctx.measureText(line.name).width, chartArea, taken);
        ctx.fillStyle = line.colour;
        ctx.fillRect(x - 0.75, chartArea.top, 1.5, chartArea.bottom - chartArea.top);
        write({ text: line.name, ...box });
        taken.push(box, { left: x - 2, right: x + 2, top: chartArea.top, bottom: chartArea.bottom });
      }
      const area = { left: 2, right: chart.width - 2, top: 0, bottom: chartArea.bottom };
      chart.labelled = place(points, area, taken, pathOf(chart, options.path));
      ctx.fillStyle = ink;
      chart.labelled.forEach(write);
      ctx.restore();
    },
  };

  Object.assign(window.msshift, { chartLabels });
})();
