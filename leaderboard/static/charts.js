// What the charts share: the page's colours and font, and the texts of their axes.
(() => {
  "use strict";

  /** @param {string} name of a colour in page.css, or "--font" */
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const chartFont = () => ({ family: colour("--font"), size: 12 });

  /** @param {number} value */
  const short = (value) => value.toFixed(1).replace(/\.0$/, "");
  /** @param {number} value */
  const percent = (value) => `${short(100 * value)}%`;

  Object.assign(window.msshift, { colour, chartFont, short, percent });
})();
