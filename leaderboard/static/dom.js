// Elements in one line. Text is always text: nothing here parses markup.
(() => {
  "use strict";

  /**
   * Make an element. Attributes are `class`, `text`, `on<event>`, or attributes as such; those that
   * are null, undefined or false are left out.
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

  const find = (selector, within = document) => {
    const element = within.querySelector(selector);
    if (element === null) throw new Error(`the page has no ${selector}`);
    return element;
  };

  /** Call only once things have been quiet for a moment. */
  const calmly = (action, milliseconds = 120) => {
    let timer = 0;
    return () => {
      clearTimeout(timer);
      timer = setTimeout(action, milliseconds);
    };
  };

  Object.assign(window.msshift, { make, find, calmly });
})();
