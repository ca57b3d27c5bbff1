// The state of a view lives in the page's address, so that a view can be sent as a link.
(() => {
  "use strict";

  /**
   * Keep a state. `defaults` holds every key; values that equal these are left out of the address.
   * `onchange` is called when the address was changed.
   */
  window.msshift.state = (defaults, onchange) => {
    let state = { ...defaults };

    const read = () => {
      const given = new URLSearchParams(location.hash.slice(1));
      state = { ...defaults };
      for (const key of Object.keys(defaults)) {
        const value = given.get(key);
        if (value !== null) state[key] = value;
      }
    };
    const write = () => {
      const changed = Object.entries(state).filter(([key, value]) => value !== defaults[key]);
      const hash = changed.length ? `#${new URLSearchParams(changed)}` : "#";
      history.replaceState(null, "", hash);
    };
    read();
    addEventListener("hashchange", () => {
      // A link within the page ("#main") is no state: keep what there was.
      if (location.hash.length > 1 && !location.hash.includes("=")) return write();
      read();
      onchange(state);
    });
    return {
      get: () => state,
      set(changes) {
        state = { ...state, ...changes };
        write();
      },
    };
  };
})();
