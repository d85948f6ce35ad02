// What every chart needs: elements without markup, numbers for people, colours of the page, a table and a CSV.
// Text from outside only ever becomes a text node.
"use strict";

(function (understudy) {
  const LOOKS = 7; // colours in the stylesheet
  const DASHES = [[], [9, 5], [2, 4], [10, 4, 2, 4]]; // if there are more lines than colours
  const MOST_TABLE_ROWS = 2000; // more would freeze the page; the CSV has all

  understudy.element = function (name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") made.className = value;
      else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  };

  understudy.colour = function (name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  };

  understudy.look = function (number) {
    const name = `line-${number % LOOKS}`;
    return { name, colour: understudy.colour(name), dash: DASHES[Math.floor(number / LOOKS) % DASHES.length] };
  };

  // 97.77777 -> 97.78; 0.00123 -> 0.00123; 1234567 -> 1,234,567
  understudy.shown = function (value) {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    if (Number.isInteger(value)) return value.toLocaleString("en");
    const size = Math.abs(value);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return size < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  };

  // Redraws when the page turns dark or is printed: a canvas keeps the colours it was drawn in.
  understudy.whenColoursChange = function (redraw) {
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", redraw);
    }
  };

  // ---- the same numbers as a table and as a file; `table` is a function to {columns, rows, words}

  understudy.tools = function (figure, name, heading, table) {
    const place = understudy.element("div", { class: "scroll data-table", tabindex: "0", role: "region", "aria-label": `Table: ${heading}`, hidden: true });
    const show = understudy.element("button", { type: "button", "aria-expanded": "false" }, "Table");
    const save = understudy.element("button", { type: "button" }, "CSV");
    save.setAttribute("aria-label", `Download CSV: ${heading}`);
    show.setAttribute("aria-label", `Show as a table: ${heading}`);
    const fill = () => place.replaceChildren(tableOf(table(), heading));
    show.addEventListener("click", () => {
      place.hidden = !place.hidden;
      show.setAttribute("aria-expanded", String(!place.hidden));
      if (!place.hidden) fill();
    });
    save.addEventListener("click", () => download(`${name}.csv`, csvOf(table())));
    figure.append(understudy.element("div", { class: "tools" }, show, save), place);
    return { refresh: () => { if (!place.hidden) fill(); } };
  };

  function tableOf({ columns, rows, words = 1 }, heading) {
    const kind = (at) => (at < words ? {} : { class: "number" });
    const head = columns.map((name, at) => understudy.element("th", { scope: "col", ...kind(at) }, name));
    const body = rows.slice(0, MOST_TABLE_ROWS).map((row) =>
      understudy.element("tr", {}, ...row.map((cell, at) =>
        understudy.element(at ? "td" : "th", at ? kind(at) : { scope: "row" }, understudy.shown(cell)))));
    const left = rows.length - MOST_TABLE_ROWS;
    const caption = left > 0 ? `${heading}; ${left.toLocaleString("en")} more rows are in the CSV` : heading;
    return understudy.element("table", {}, understudy.element("caption", {}, caption),
      understudy.element("thead", {}, understudy.element("tr", {}, ...head)), understudy.element("tbody", {}, ...body));
  }

  function csvOf({ columns, rows }) {
    return [columns, ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
  }

  function field(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = String(value);
    // A spreadsheet would run a text that begins like a formula.
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function download(name, text) {
    const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    const link = understudy.element("a", { href: address, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  // ---- the box that follows the cursor, and its words for a screen reader

  understudy.tip = function (plot) {
    const box = understudy.element("div", { class: "tip", hidden: true });
    const spoken = understudy.element("div", { class: "unseen", "aria-live": "polite" });
    plot.append(box, spoken);
    return {
      hide() { box.hidden = true; },
      show(left, top, children) {
        box.replaceChildren(...children);
        box.hidden = false;
        const wide = box.offsetWidth, room = plot.clientWidth;
        box.style.left = `${Math.max(0, left + 14 + wide > room ? left - 14 - wide : left + 14)}px`;
        box.style.top = `${Math.max(0, top - box.offsetHeight / 2)}px`;
      },
      say() { spoken.textContent = box.innerText.replaceAll("\n", " "); },
    };
  };
})((window.understudy = window.understudy || {}));
