// Data stand in scripts that register themselves: a page opened from a disk may not fetch.
window.msshift = (() => {
  "use strict";
  const values = new Map();
  const loading = new Map();
  const base = () => document.body.dataset.base ?? "";

  return {
    /** Called by data scripts. */
    register(key, value) {
      values.set(key, value);
    },

    get(key) {
      return values.get(key);
    },

    /** Load `data/<file>.js` of the board, once, and return a promise of what it registers as `key`. */
    load(key, file) {
      if (values.has(key)) return Promise.resolve(values.get(key));
      if (!loading.has(key)) {
        loading.set(key, new Promise((resolve, reject) => {
          const script = document.createElement("script");
          script.src = `${base()}data/${file}.js`;
          script.onload = () => resolve(values.get(key));
          script.onerror = () => {
            loading.delete(key);
            reject(new Error(`${script.src} cannot be read`));
          };
          document.head.append(script);
        }));
      }
      return loading.get(key);
    },
  };
})();
