// A system's page: one panel per shift and measure, of which the address chooses one.
(() => {
  "use strict";
  const { find, state: stateOf } = window.msshift;
  const panels = ([...document.querySelectorAll(".panel")]);
  if (!panels.length) return;
  const { shift: firstShift = "", measure: firstMeasure = "" } = panels[0].dataset;
  const controls = find("#controls");
  const state = stateOf(
    { shift: firstShift, measure: firstMeasure, search: "", group: "", sort: "", dir: "desc", page: "1" }, () => show());

  const show = () => {
    const { shift, measure } = state.get();
    const fits = (panel) => panel.dataset.shift === shift && panel.dataset.measure === measure;
    const chosen = panels.find(fits) ?? panels.find((panel) => panel.dataset.shift === shift) ?? panels[0];
    for (const panel of panels) panel.hidden = panel !== chosen;
    for (const name of ["shift", "measure"]) {
      const radio = controls.querySelector(`[name=${name}][value="${CSS.escape(chosen.dataset[name] ?? "")}"]`);
      if (radio) radio.checked = true;
    }
    document.dispatchEvent(new CustomEvent("panelchange", { detail: { ...chosen.dataset } }));
  };

  controls.hidden = false;
  controls.addEventListener("change", (event) => {
    state.set({ [event.target.name]: event.target.value, page: "1" });
    show();
  });
  window.msshift.systemState = state;
  addEventListener("load", () => {
    show();
    // Panels were hidden above the place that a link leads to.
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  });
})();
