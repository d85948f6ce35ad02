// A target that the reader drags: rounds and megabytes until each run first reaches it, in the table of runs, and a
// line across the charts that it belongs to. The control's data-target names the JSON block with the runs' scores.
"use strict";

(function (understudy) {
  understudy.target = function (control) {
    const runs = JSON.parse(document.getElementById(control.dataset.target).textContent);
    const slider = control.querySelector("input"), output = control.querySelector("output");
    const charts = control.dataset.charts.split(" ");
    const update = () => {
      const target = Number(slider.value);
      output.textContent = `${target.toFixed(1)} %`;
      slider.setAttribute("aria-valuetext", output.textContent);
      for (const run of runs) {
        const at = run.scores.findIndex((score) => score !== null && score >= target - 1e-9);
        put(`rounds-${run.row}`, at < 0 ? null : run.rounds[at]);
        put(`megabytes-${run.row}`, at < 0 ? null : run.megabytes[at]);
      }
      for (const name of charts) understudy.charts.get(name)?.level("target", target);
    };
    slider.addEventListener("input", update);
    update();
  };

  function put(id, value) {
    const cell = document.getElementById(id);
    cell.textContent = understudy.shown(value === null ? null : Number(value.toPrecision(3)));
    cell.dataset.value = value === null ? "" : value;
  }
})((window.understudy = window.understudy || {}));
