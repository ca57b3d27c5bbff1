// Elements in one line. Text is always text: nothing here parses markup.
(() => {
  "use strict";

  /**
   * @param {string} tag
   * @param {Record<string, any>} [attributes] `class`, `text`, `on<event>`, or attributes as such;
   *   those that are null, undefined or false are left out
   * @param {...(Node | string | null)} children
   * @returns {any}
   */
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "text") element.textContent = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };

  /** @param {string} selector @param {ParentNode} [within] @returns {any} */
  const find = (selector, within = document) => {
    const element = within.querySelector(selector);
    if (element === null) throw new Error(`the page has no ${selector}`);
    return element;
  };

  /**
   * Order two values, numbers or texts; those that are missing come last in either direction.
   * @param {any} a @param {any} b @param {number} direction 1 or -1
   */
  const order = (a, b, direction) => {
    const none = (/** @type {any} */ value) => value === null || value === undefined || value === "";
    if (none(a) || none(b)) return Number(none(a)) - Number(none(b));
    if (typeof a === "number") return direction * (a - b);
    return direction * (a < b ? -1 : a > b ? 1 : 0);
  };

  /** Call only once things have been quiet for a moment. @param {() => void} action */
  const calmly = (action, milliseconds = 120) => {
    let timer = 0;
    return () => {
      clearTimeout(timer);
      timer = setTimeout(action, milliseconds);
    };
  };

  Object.assign(window.msshift, { make, find, order, calmly });
})();
