// Follows runs: the list of them, one of them, or several beside each other. The server sends values by server-sent
// events; here they become text nodes and lines of charts. A connection that broke is taken up where it was.
"use strict";

(function (understudy) {
  const { element, shown } = understudy;
  const REDRAWN = 500; // milliseconds between drawings of a chart, however fast lines come
  const MOST_FAILURES = 100; // rows
  const MEGABYTE = 1e6;
  const find = (id) => document.getElementById(id);

  const live = find("live");
  if (!live) return;

  // ---- the connection

  const handlers = {};
  function connect() {
    const source = new EventSource(live.dataset.events);
    const say = (words) => { if (find("connection").textContent !== words) find("connection").textContent = words; };
    source.addEventListener("open", () => say(""));
    source.addEventListener("error", () => say(source.readyState === EventSource.CLOSED
      ? "The server behind this page is gone. Start it again and open the link that it prints."
      : "The connection is lost; trying again …"));
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
    addEventListener("pagehide", () => source.close());
  }

  // ---- small pieces

  function row(cells) {
    return element("tr", {}, ...cells);
  }

  function cell(text, attributes = {}, name = "td") {
    return element(name, attributes, text);
  }

  function badge(stands) {
    const made = element("span", { class: "badge" }, stands);
    made.dataset.stands = stands;
    return made;
  }

  function fill(table, rows) {
    find(table).tBodies[0].replaceChildren(...rows);
  }

  function ago(seconds) {
    if (seconds < 60) return "just now";
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) return `${minutes} min ago`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return `${hours} h ago`;
    return `${Math.floor(hours / 24)} days ago`;
  }

  // ---- the list of runs

  const rows = new Map(); // by id: {values, row}

  function listRow(values) {
    const pick = element("input", { type: "checkbox", name: "run", value: values.id, "aria-label": `Pick ${values.name}` });
    const state = element("td", { class: "state" }, badge(values.stands));
    state.dataset.value = values.stands;
    if (values.stands !== "finished") state.append(" ", element("span", { class: "why" }, values.detail));
    const made = row([
      element("td", {}, pick),
      element("th", { scope: "row" }, element("a", { href: `/runs/${encodeURIComponent(values.id)}` }, values.name)),
      cell(values.label || "–"), cell(values.data || "–"), state,
      cell(values.rounds, { class: "number", "data-value": String(values.round) }),
      cell(values.accuracy, { class: "number", "data-value": values.share === null ? "" : String(values.share) }),
      cell(values.epsilon, { class: "number", "data-value": values.spent === null ? "" : String(values.spent) }),
      cell("", { class: "number", "data-value": String(-values.changed) }),
    ]);
    made.dataset.run = values.id;
    return made;
  }

  function fits(values) {
    const wanted = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = [values.name, values.label, values.data, values.stands].join(" ").toLowerCase();
    return wanted.every((word) => text.includes(word));
  }

  function tidyList() {
    let fitting = 0;
    for (const { values, row: made } of rows.values()) {
      made.hidden = !fits(values);
      fitting += !made.hidden;
      made.cells[8].textContent = ago(Date.now() / 1000 - values.changed);
    }
    return fitting;
  }

  function tidyPicked() {
    const count = find("runs").querySelectorAll("input:checked").length;
    find("compare").disabled = count < 2;
    find("picked").textContent = count === 0 ? "Pick two or more to compare." : `${count} picked`;
  }

  function summary(said) {
    const stands = new Map();
    for (const { values } of rows.values()) stands.set(values.stands, (stands.get(values.stands) || 0) + 1);
    const parts = [...stands].sort((one, other) => other[1] - one[1]).map(([name, count]) => `${count} ${name}`);
    const runs = `${rows.size} ${rows.size === 1 ? "run" : "runs"}`;
    if (!said.complete) return rows.size ? `${runs} so far; reading the folder …` : "Reading the folder …";
    return rows.size ? `${runs}: ${parts.join(", ")}.` : "There are no runs here yet. This page will show them as they begin.";
  }

  handlers.runs = function (said) {
    const only = said.runs.find((values) => values.alone);
    if (only) return location.replace(`/runs/${encodeURIComponent(only.id)}`);
    const body = find("runs").tBodies[0];
    const picked = new Set([...body.querySelectorAll("input:checked")].map((box) => box.value));
    const focused = document.activeElement?.closest?.("tr")?.dataset.run;
    const within = document.activeElement?.localName;
    if (said.all) for (const id of [...rows.keys()]) if (!said.order.includes(id)) said.gone.push(id);
    for (const id of said.gone) { rows.get(id)?.row.remove(); rows.delete(id); }
    for (const values of said.runs) {
      const made = listRow(values), old = rows.get(values.id);
      made.querySelector("input").checked = picked.has(values.id);
      rows.set(values.id, { values, row: made });
      if (old) old.row.replaceWith(made);
      if (values.id === focused) made.querySelector(within)?.focus();
    }
    const sorted = find("runs").querySelector("[aria-sort]") !== null;
    if (sorted) for (const { row: made } of rows.values()) { if (!made.isConnected) body.append(made); }
    else place(body, said.order);
    find("summary").textContent = summary(said);
    find("remark").textContent = said.remark;
    find("remark").hidden = !said.remark;
    tidyList();
    tidyPicked();
  };

  // The newest first, moving as few rows as possible: a row that is moved loses the focus.
  function place(body, order) {
    let at = body.firstElementChild;
    for (const id of order) {
      const made = rows.get(id)?.row;
      if (!made) continue;
      if (made === at) at = at.nextElementSibling;
      else body.insertBefore(made, at);
    }
  }

  function startList() {
    find("filter").addEventListener("input", tidyList);
    find("runs").addEventListener("change", tidyPicked);
    setInterval(tidyList, 30000);
    tidyPicked();
  }

  // ---- curves

  const lines = new Map(); // by run, in the order in which they were asked for
  const labels = new Map();
  const looks = new Map();
  let drawing = null;

  const MEASURES = {
    accuracy: (line) => percent(line.accuracy),
    "accuracy-by-megabytes": (line) => percent(line.accuracy),
    loss: (line) => number(line.loss),
    seconds: (line) => number(line.seconds),
    f1: (line) => percent(line.macro_f1),
    epsilon: (line) => number(line.epsilon),
  };

  function number(value) {
    return typeof value === "number" ? value : null;
  }

  function percent(value) {
    return typeof value === "number" ? 100 * value : null;
  }

  function traceOf(run, some, measure, byMegabytes) {
    let sent = 0;
    const x = [], y = [];
    for (const line of some) {
      sent += ((number(line.bytes_up) || 0) + (number(line.bytes_down) || 0)) / MEGABYTE;
      const value = measure(line);
      if (value === null) continue;
      x.push(byMegabytes ? Number(sent.toPrecision(7)) : line.round);
      y.push(Number(value.toPrecision(7)));
    }
    return { label: labels.get(run) || "", look: looks.get(run) || 0, style: "line", x, y, low: null, high: null };
  }

  function draw() {
    drawing = null;
    for (const [name, measure] of Object.entries(MEASURES)) {
      const figure = find(`chart-${name}`);
      const traces = [...lines].map(([run, some]) => traceOf(run, some, measure, name.endsWith("megabytes")));
      const empty = traces.every((trace) => trace.y.every((value) => name === "epsilon" && value === 0));
      figure.hidden = empty && name !== "accuracy";
      if (!figure.hidden) understudy.charts.get(name).update({ ...understudy.valuesOf(figure), lines: traces });
    }
  }

  function drawSoon() {
    if (drawing === null) drawing = setTimeout(draw, REDRAWN);
  }

  handlers.lines = function ({ run, anew, lines: fresh }) {
    lines.set(run, anew ? fresh : [...(lines.get(run) || []), ...fresh]);
    drawSoon();
    if (live.dataset.page === "run") failures(lines.get(run));
  };

  // ---- one run

  function failures(some) {
    const found = some.flatMap((line) => line.failures.map((one) => ({ round: line.round, ...one })));
    const count = some.reduce((sum, line) => sum + (number(line.failed) || 0), 0);
    find("failures-part").hidden = !found.length;
    find("failures-about").textContent = `${shown(count)} in all rounds${count > MOST_FAILURES ? "; the newest are listed" : ""}.`;
    fill("failures", found.slice(-MOST_FAILURES).reverse().map(({ round, client, why }) =>
      row([cell(round ? String(round) : "opening", { scope: "row" }, "th"), cell(client), cell(why)])));
  }

  function commandLine(text) {
    const copy = element("button", { type: "button", class: "press small", "aria-label": `Copy: ${text}` }, "Copy");
    copy.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; } catch { copy.textContent = "Select it by hand"; }
    });
    return element("div", { class: "command" }, element("pre", {}, text), copy);
  }

  let phase = null; // {name, replies, begun}
  function tick() {
    find("phase").hidden = phase === null;
    if (phase === null) return;
    const seconds = Math.max(0, Math.round((performance.now() - phase.begun) / 1000));
    find("phase").textContent = `${phase.name}: ${[`${seconds} s so far`, phase.replies].filter(Boolean).join(", ")}.`;
  }

  function sites(said) {
    find("sites-part").hidden = !said;
    if (!said) return;
    const left = said.count - said.rows.length;
    find("sites-about").textContent = `${said.online} of ${said.count} online, ${said.awaited} ${said.awaited === 1 ? "reply" : "replies"} awaited${left > 0 ? `; ${left} more are not listed` : ""}.`;
    fill("sites", said.rows.map((site) => row([cell(site.name, { scope: "row" }, "th"),
      cell(site.there ? "online" : "away", { class: site.there ? "good" : "bad" }),
      cell(site.reply, site.awaited ? { class: "awaited" } : {})])));
  }

  const kept = new Map(); // what is on the page already, so that a screen reader and a selection are not disturbed
  function changed(key, value) {
    const text = JSON.stringify(value);
    if (kept.get(key) === text) return false;
    kept.set(key, text);
    return true;
  }

  function oneRun(said) {
    find("stands").textContent = find("stands").dataset.stands = said.stands;
    if (changed("detail", said.detail)) find("detail").textContent = said.detail;
    if (changed("commands", said.commands)) {
      find("commands").hidden = !said.commands.length;
      find("command-lines").replaceChildren(...said.commands.map(commandLine));
    }
    if (changed("facts", said.facts)) {
      find("facts").replaceChildren(...said.facts.map(([name, value]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, value))));
    }
    if (changed("sites", said.sites)) sites(said.sites);
    find("phases-part").hidden = !said.phases.length;
    if (changed("phases", said.phases)) {
      fill("phases", said.phases.map(([name, total, last]) =>
        row([cell(name, { scope: "row" }, "th"), cell(total, { class: "number" }), cell(last, { class: "number" })])));
    }
    find("said-part").hidden = !said.said.length;
    if (changed("said", said.said)) find("said").replaceChildren(...said.said.map((one) => element("li", {}, one)));
    phase = said.phase === null ? null : { ...said.phase, begun: performance.now() - 1000 * (said.now - said.phase.since) };
    tick();
  }

  // ---- several runs

  function standing(said) {
    const item = document.querySelector(`#standings [data-run="${CSS.escape(said.id)}"]`);
    const mark = item?.querySelector(".badge");
    if (!mark) return;
    mark.textContent = mark.dataset.stands = said.stands;
    item.querySelector(".detail").textContent = said.detail;
  }

  handlers.run = function (said) {
    if (live.dataset.page === "run") oneRun(said);
    else standing(said);
  };

  handlers.gone = function ({ id }) {
    const said = { id, stands: "gone", detail: "its folder is not there any more", commands: [] };
    if (live.dataset.page !== "run") return standing(said);
    find("stands").textContent = find("stands").dataset.stands = said.stands;
    find("detail").textContent = said.detail;
    kept.clear();
    phase = null;
    tick();
  };

  handlers.comparison = function (said) {
    find("remark").textContent = said.problem || "";
    find("remark").hidden = !said.problem;
    if (said.problem || !changed("comparison", said)) return;
    const table = find("comparison"), ordered = table.querySelector("[aria-sort]");
    const column = ordered ? ordered.cellIndex : -1, direction = ordered?.getAttribute("aria-sort");
    table.tHead.replaceChildren(row(said.columns.map((name, at) => cell(name, { scope: "col", ...(at ? { class: "number" } : {}) }, "th"))));
    fill("comparison", said.rows.map((some) => row(some.map((text, at) => (at ? cell(text, { class: "number" }) : cell(text, { scope: "row" }, "th"))))));
    understudy.sortable(table);
    if (column >= 0) {
      const button = table.tHead.rows[0].cells[column].querySelector("button");
      button.click();
      if (direction === "descending") button.click();
    }
    find("notes").replaceChildren(...said.notes.map((note) => element("li", {}, note)));
  };

  // ---- to begin

  function start() {
    if (live.dataset.page === "runs") startList();
    else {
      const named = live.dataset.page === "run" ? [[live.dataset.run, ""]] : JSON.parse(find("labels").textContent);
      named.forEach(([run, label], at) => { labels.set(run, label); looks.set(run, at); lines.set(run, []); });
      draw();
      if (live.dataset.page === "run") setInterval(tick, 1000);
    }
    connect();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})((window.understudy = window.understudy || {}));
