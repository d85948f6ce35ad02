// The review: counts what leaves, drops a class or all below a threshold, takes changes back. The page is a plain form;
// without this script single examples can still be dropped.
"use strict";

(function () {
  const form = document.getElementById("decision");
  const boxes = [...document.querySelectorAll('input[name="drop"]')];
  if (!form || boxes.some((box) => box.disabled)) return;

  const approve = form.querySelector('button[value="yes"]');
  const count = document.getElementById("count");
  const takeBack = document.getElementById("take-back");
  const history = []; // the boxes that each change turned over
  let sending = false;

  function shown(number) {
    return number.toLocaleString("en");
  }

  function refresh() {
    const all = Number(form.dataset.all);
    const dropped = boxes.filter((box) => box.checked).length;
    if (!boxes.length) return;
    count.textContent = `${shown(all - dropped)} of ${shown(all)} leave, ${shown(dropped)} dropped`;
    approve.textContent = dropped ? `Approve the other ${shown(all - dropped)}` : `Approve all ${shown(all)}`;
    approve.disabled = dropped === all;
    if (takeBack) takeBack.disabled = !history.length;
  }

  function turn(some) {
    if (!some.length) return;
    for (const box of some) box.checked = !box.checked;
    history.push(some);
    refresh();
  }

  function undo() {
    const last = history.pop();
    if (!last) return;
    for (const box of last) box.checked = !box.checked;
    refresh();
    last[0].focus();
  }

  for (const box of boxes) {
    box.addEventListener("change", () => {
      history.push([box]);
      refresh();
    });
  }
  // A click on a picture means its box.
  for (const picture of document.querySelectorAll(".example .pair")) {
    picture.addEventListener("click", () => turn([picture.parentElement.querySelector("input")]));
  }
  for (const button of document.querySelectorAll("[data-drop-class]")) {
    const mine = boxes.filter((box) => box.dataset.class === button.dataset.dropClass);
    button.addEventListener("click", () => turn(mine.filter((box) => !box.checked)));
  }
  for (const button of document.querySelectorAll("[data-keep-class]")) {
    const mine = boxes.filter((box) => box.dataset.class === button.dataset.keepClass);
    button.addEventListener("click", () => turn(mine.filter((box) => box.checked)));
  }
  document.getElementById("keep-all")?.addEventListener("click", () => turn(boxes.filter((box) => box.checked)));
  takeBack?.addEventListener("click", undo);

  // ---- all below a threshold

  const threshold = document.getElementById("threshold");
  if (threshold) {
    const quantiles = threshold.dataset.quantiles.split(" ").map(Number);
    const said = document.getElementById("threshold-shown");
    const drop = document.getElementById("drop-near");
    const near = () => {
      const place = Number(threshold.value);
      if (!place) return [];
      return boxes.filter((box) => Number(box.dataset.quantile) <= quantiles[place - 1] && !box.checked);
    };
    const tell = () => {
      const place = Number(threshold.value);
      said.textContent = place ? `${Number((100 * quantiles[place - 1]).toPrecision(3))} %` : "–";
      threshold.setAttribute("aria-valuetext", said.textContent);
      document.getElementById("near-count").textContent = shown(near().length);
      drop.disabled = !near().length;
    };
    threshold.addEventListener("input", tell);
    drop.addEventListener("click", () => {
      turn(near());
      tell();
    });
    tell();
  }

  // ---- the keyboard

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches('input:not([type="checkbox"]), textarea');
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !typing) {
      event.preventDefault();
      undo();
      return;
    }
    const at = boxes.indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "d" || event.key === "D") {
      turn([boxes[at]]);
      return;
    }
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: beside(at, 1), ArrowUp: beside(at, -1) }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    boxes[Math.max(0, Math.min(boxes.length - 1, to))].focus();
  });

  // The box in the row below or above that is nearest in the same column.
  function beside(at, way) {
    const here = boxes[at].getBoundingClientRect();
    for (let to = at + way; to >= 0 && to < boxes.length; to += way) {
      const there = boxes[to].getBoundingClientRect();
      if (way * (there.top - here.top) > 8 && way * (there.left - here.left) >= -8) return to;
      if (way * (there.top - here.top) > 4 * here.height + 300) return to;
    }
    return at;
  }

  // ---- sending

  form.addEventListener("submit", (event) => {
    if (sending) event.preventDefault(); // a double click
    sending = true;
  });
  window.addEventListener("pageshow", () => {
    sending = false;
    refresh();
  });
  window.addEventListener("beforeunload", (event) => {
    if (history.length && !sending) event.preventDefault();
  });
  refresh();
})();
