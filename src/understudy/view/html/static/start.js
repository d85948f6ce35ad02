// Brings every figure and table of a page to life. A figure carries its values in a JSON block, so nothing here depends
// on whether the page was inlined into one file or is served in parts.
"use strict";

(function (understudy) {
  understudy.charts = new Map(); // by name

  understudy.valuesOf = function (figure) {
    return JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  };

  understudy.mount = function (figure) {
    const values = understudy.valuesOf(figure);
    const chart = understudy[values.kind](figure, values);
    understudy.charts.set(values.name, chart);
    return chart;
  };

  // A link into something folded unfolds it.
  function unfold() {
    const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = wanted; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (wanted) wanted.scrollIntoView();
  }

  function start() {
    for (const figure of document.querySelectorAll("figure.chart")) understudy.mount(figure);
    for (const table of document.querySelectorAll("table.sortable")) understudy.sortable(table);
    for (const swatch of document.querySelectorAll("[data-look]")) understudy.paintSwatch(swatch, Number(swatch.dataset.look));
    for (const control of document.querySelectorAll("[data-target]")) understudy.target?.(control);
    addEventListener("hashchange", unfold);
    if (location.hash) unfold();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})((window.understudy = window.understudy || {}));
