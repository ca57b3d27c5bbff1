// Data stand in scripts that register themselves: a page opened from a disk may not fetch.
window.msshift = (() => {
  "use strict";
  /** @type {Map<string, any>} */
  const values = new Map();
  /** @type {Map<string, Promise<any>>} */
  const loading = new Map();
  const base = () => document.body.dataset.base ?? "";

  return {
    /** Called by data scripts. @param {string} key @param {any} value */
    register(key, value) {
      values.set(key, value);
    },

    /** @param {string} key */
    get(key) {
      return values.get(key);
    },

    /**
     * Load `data/<file>.js` of the board, once, and return what it registers as `key`.
     * @param {string} key
     * @param {string} file
     * @returns {Promise<any>}
     */
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
      return /** @type {Promise<any>} */ (loading.get(key));
    },
  };
})();
