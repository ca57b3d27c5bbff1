// What the charts share: the page's colours and font, and the texts of their axes.
(() => {
  "use strict";

  /** A colour of page.css by its name, or the "--font". */
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const chartFont = () => ({ family: colour("--font"), size: 12 });

  const short = (value) => value.toFixed(1).replace(/\.0$/, "");
  const percent = (value) => `${short(100 * value)}%`;

  Object.assign(window.msshift, { colour, chartFont, short, percent });
})();
