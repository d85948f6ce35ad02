// Lines, bands and dots over numbers or names, drawn by uPlot: values on hover and by arrow keys, lines switched off by
// their label. `understudy.lines(figure, values)` returns {update(values), level(value)}.
"use strict";

(function (understudy) {
  const { element, shown } = understudy;
  const HEIGHT = 260;
  const MOST_DOTS = 30; // if a line has more points, no line has any
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';

  understudy.lines = function (figure, first) {
    let values = first, chart = null, at = -1;
    const off = new Set(); // labels of lines that are switched off
    const plot = figure.querySelector(".plot") || figure.appendChild(element("div", { class: "plot" }));
    plot.setAttribute("tabindex", "0");
    plot.setAttribute("role", "img");
    const legend = element("ul", { class: "legend" });
    plot.after(legend);
    const tip = understudy.tip(plot);
    const tools = understudy.tools(figure, values.name, values.heading, () => asTable(values));

    function draw() {
      if (chart) chart.destroy();
      plot.setAttribute("aria-label", summary(values));
      chart = plotted(plot, values, off, hover);
      fillLegend();
    }

    function hover(u) {
      const index = u.cursor.idx;
      if (index === null || index === undefined || u.cursor.left < 0) return tip.hide();
      at = index;
      const rows = u.shown.flatMap((line) => {
        const place = u.cursor.idxs[line.series];
        const y = place === null || place === undefined ? null : u.data[line.series][place];
        if (y === null || y === undefined) return [];
        return [{ line, y, x: u.data[0][place], low: line.band ? u.data[line.band[1]][place] : null, high: line.band ? u.data[line.band[0]][place] : null }];
      });
      if (!rows.length) return tip.hide();
      const here = u.data[0][index];
      rows.sort((one, other) => other.y - one.y);
      const items = rows.map(({ line, y, x, low, high }) => element("li", {}, swatch(line.look),
        element("span", {}, line.label),
        element("span", { class: "value" }, shown(y) + (low !== null && low !== high ? ` (${shown(low)} to ${shown(high)})` : "") + (x !== here ? ` at ${xShown(values, x)}` : ""))));
      const title = element("strong", {}, values.x.names.length ? xShown(values, here) : `${values.x.label} ${xShown(values, here)}`);
      tip.show(u.bbox.left / devicePixelRatio + u.valToPos(here, "x"), u.cursor.top, [title, element("ul", {}, ...items)]);
    }

    plot.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
      if (event.key === "Escape") tip.hide();
      if (!(event.key in steps) || !chart) return;
      event.preventDefault();
      const last = chart.data[0].length - 1;
      at = Math.min(Math.max(at + steps[event.key], 0), last);
      chart.setCursor({ left: chart.valToPos(chart.data[0][at], "x"), top: HEIGHT / 3 });
      tip.say();
    });
    plot.addEventListener("pointerleave", () => tip.hide());
    plot.addEventListener("blur", () => tip.hide());

    function fillLegend() {
      legend.replaceChildren(...values.lines.filter((line) => line.label).map((line) => {
        const button = element("button", { type: "button", "aria-pressed": String(!off.has(line.label)) }, swatch(line.look, line.style), line.label);
        button.addEventListener("click", () => {
          if (!off.delete(line.label)) off.add(line.label);
          const focused = [...legend.querySelectorAll("button")].indexOf(button);
          draw();
          legend.querySelectorAll("button")[focused].focus();
        });
        return element("li", {}, button);
      }));
      if (values.level) legend.append(element("li", {}, element("span", { class: "swatch dashed" }), values.level[0]));
      legend.hidden = values.lines.length < 2 && !values.level;
    }

    new ResizeObserver(() => { if (chart && plot.clientWidth) chart.setSize({ width: plot.clientWidth, height: HEIGHT }); }).observe(plot);
    understudy.whenColoursChange(draw);
    draw();
    return {
      update(newer) { values = newer; draw(); tools.refresh(); },
      level(label, value) { values = { ...values, level: [label, value] }; draw(); },
    };
  };

  // The colour stays a variable, so that it follows the page into the dark.
  understudy.paintSwatch = function (made, number, style = "") {
    const { name, dash } = understudy.look(number);
    made.style.color = `var(--${name})`;
    if (dash.length || style === "dashed") made.classList.add(dash[0] === 2 ? "dotted" : "dashed");
    if (style === "dotted") made.classList.add("dotted");
    if (style === "dots" || style === "seeds") made.classList.add("block");
    return made;
  };

  function swatch(number, style) {
    return understudy.paintSwatch(element("span", { class: "swatch" }), number, style);
  }

  function xShown(values, x) {
    return values.x.names.length ? (values.x.names[x] ?? "") : shown(x);
  }

  function summary(values) {
    const ends = values.lines.slice(0, 8).map((line) => {
      const last = line.y.findLast((y) => y !== null);
      return `${line.label || values.heading} ends at ${shown(last ?? null)}`;
    });
    return `${values.heading}: ${values.y.label} over ${values.x.label}. ${ends.join("; ")}. Arrow keys read out values; the table below has all.`;
  }

  function asTable(values) {
    const places = [...new Set(values.lines.flatMap((line) => line.x))].filter((x) => x !== null).sort((a, b) => a - b);
    const columns = [values.x.label || "x"], parts = [];
    for (const line of values.lines) {
      for (const [key, name] of [["y", ""], ["low", " lowest"], ["high", " highest"]]) {
        if (!line[key]) continue;
        columns.push((line.label || values.y.label || values.heading) + name);
        const found = new Map();
        line.x.forEach((x, at) => found.set(x, [...(found.get(x) || []), line[key][at]]));
        parts.push(found);
      }
    }
    const rows = places.flatMap((x) => {
      const most = Math.max(...parts.map((part) => (part.get(x) || []).length));
      return Array.from({ length: most }, (_, turn) => [values.x.names.length ? xShown(values, x) : x, ...parts.map((part) => (part.get(x) || [])[turn] ?? null)]);
    });
    return { columns, rows };
  }

  // ---- uPlot

  function usable(line, values) {
    const points = line.x.map((x, at) => ({ x, y: line.y[at], low: line.low?.[at], high: line.high?.[at] }));
    return points.filter(({ x, y }) => x !== null && (!values.x.log || x > 0) && (y === null || !values.y.log || y > 0))
      .sort((one, other) => one.x - other.x);
  }

  // One y per x, as uPlot wants it: the mean of the seeds at one place.
  function merged(points) {
    const at = new Map();
    for (const point of points) at.set(point.x, [...(at.get(point.x) || []), point]);
    return [...at].map(([x, some]) => {
      const known = some.map((one) => one.y).filter((y) => y !== null);
      return { ...some[0], x, y: known.length ? known.reduce((sum, y) => sum + y, 0) / known.length : null };
    });
  }

  function plotted(plot, values, off, hover) {
    const series = [{}], tables = [], bands = [], lines = [], dots = [];
    const dotted = values.lines.every((line) => line.x.length <= MOST_DOTS);
    for (const line of values.lines.filter((one) => !off.has(one.label))) {
      const { colour, dash } = understudy.look(line.look);
      const all = usable(line, values), points = merged(all);
      const seeds = line.style.endsWith("seeds");
      if (seeds) dots.push({ colour, all });
      const table = [points.map((p) => p.x), points.map((p) => p.y)];
      const bare = line.style === "dots" || line.style === "seeds";
      const dashes = line.style === "dashed" ? [9, 5] : line.style === "dotted" ? [2, 4] : dash;
      series.push({ label: line.label, stroke: colour, width: bare ? 0 : 2, dash: dashes, spanGaps: true, paths: bare ? () => null : undefined,
        points: { show: bare || dotted, size: bare ? 9 : 5, width: 1, fill: colour, stroke: colour } });
      const entry = { label: line.label || values.y.label || values.heading, look: line.look, series: series.length - 1 };
      if (line.low && line.high) {
        table.push(points.map((p) => p.high ?? null), points.map((p) => p.low ?? null));
        for (let edge = 0; edge < 2; edge += 1) series.push({ stroke: "transparent", width: 0, spanGaps: true, points: { show: false } });
        entry.band = [series.length - 2, series.length - 1];
        bands.push({ series: entry.band, fill: colour + "26" });
      }
      tables.push(table);
      lines.push(entry);
    }
    const data = tables.length ? uPlot.join(tables) : [[]];
    const chart = new uPlot(options(plot, values, series, bands, dots, hover), data, plot);
    chart.shown = lines;
    return chart;
  }

  function options(plot, values, series, bands, dots, hover) {
    const soft = understudy.colour("soft"), faint = understudy.colour("faint");
    const axis = (label, size, more) => ({ stroke: soft, font: FONT, label: label || undefined, labelFont: FONT, labelSize: 20, size, gap: 4,
      grid: { stroke: faint, width: 1 }, ticks: { stroke: faint, width: 1, size: 4 }, ...more });
    return {
      width: Math.max(plot.clientWidth, 200), height: HEIGHT, legend: { show: false }, series, bands,
      padding: [10, 12, 0, 0],
      scales: {
        x: { time: false, distr: values.x.log ? 3 : 1, range: (u, low, high) => xRange(values, low, high) },
        y: { distr: values.y.log ? 3 : 1, range: (u, low, high) => yRange(values, low, high) },
      },
      axes: [axis(values.x.label, 30, xAxis(values)), axis(values.y.label, 52, { values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : shown(tick))) })],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 }, dataIdx: nearest, focus: { prox: -1 } },
      hooks: {
        setCursor: [(u) => { if (u.shown) hover(u); }],
        drawClear: [(u) => shade(u, values, faint)],
        draw: [(u) => { acrossAt(u, values, soft); for (const one of dots) seedDots(u, one); }],
      },
    };
  }

  function xAxis(values) {
    if (values.x.names.length) {
      const long = Math.max(...values.x.names.map((name) => name.length)) > 6 && values.x.names.length > 3;
      return { splits: () => values.x.names.map((_, at) => at), values: (u, ticks) => ticks.map((tick) => shortened(values.x.names[tick] ?? "")),
        rotate: long ? -35 : 0, size: long ? 74 : 30, grid: { show: false } };
    }
    const whole = values.lines.every((line) => line.x.every((x) => x === null || Number.isInteger(x)));
    const steps = whole && !values.x.log ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] } : {};
    return { values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : shown(tick))), ...steps };
  }

  function shortened(name) {
    return name.length <= 18 ? name : `${name.slice(0, 17)}…`;
  }

  function xRange(values, low, high) {
    if (low === null || high === null) return values.x.log ? [1, 10] : [0, 1];
    if (values.x.names.length) return [-0.5, values.x.names.length - 0.5];
    if (values.x.log) return low === high ? [low / 2, high * 2] : [low, high];
    if (values.x.zero) return [0, high > 0 ? high : 1];
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  }

  function yRange(values, low, high) {
    if (values.y.range) return values.y.range;
    if (low === null || high === null) return values.y.log ? [0.1, 1] : [0, 1];
    if (values.y.log) return [low / 1.5, high * 1.5];
    const level = values.level ? values.level[1] : high;
    const most = Math.max(high, level), least = Math.min(low, level);
    const room = (most - least || Math.abs(most) || 1) * 0.08;
    // A quantity that cannot be negative keeps its zero in view if it is near.
    return [least >= 0 && least < 0.5 * most ? 0 : least - room, most + room];
  }

  // The nearest point of each line, which may lie beside the cursor: runs differ in their rounds and megabytes.
  function nearest(u, number, index) {
    if (number === 0 || index === null) return index;
    const y = u.data[number];
    if (!y || (y[index] !== null && y[index] !== undefined)) return index;
    const x = u.data[0], known = (at) => y[at] !== null && y[at] !== undefined;
    let left = index, right = index;
    while (left >= 0 && !known(left)) left -= 1;
    while (right < x.length && !known(right)) right += 1;
    if (left < 0) return right < x.length ? right : null;
    if (right >= x.length) return left;
    return x[index] - x[left] <= x[right] - x[index] ? left : right;
  }

  function shade(u, values, colour) {
    if (!values.shaded) return;
    const [left, right] = values.shaded.map((x) => u.valToPos(x, "x", true));
    u.ctx.save();
    u.ctx.fillStyle = colour;
    u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
    u.ctx.restore();
  }

  function acrossAt(u, values, colour) {
    if (!values.level) return;
    const y = u.valToPos(values.level[1], "y", true);
    if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) return;
    u.ctx.save();
    u.ctx.strokeStyle = colour;
    u.ctx.lineWidth = 1.5 * devicePixelRatio;
    u.ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    u.ctx.beginPath();
    u.ctx.moveTo(u.bbox.left, y);
    u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
    u.ctx.stroke();
    u.ctx.restore();
  }

  function seedDots(u, { colour, all }) {
    u.ctx.save();
    u.ctx.fillStyle = colour + "8c";
    for (const { x, y } of all) {
      if (y === null) continue;
      u.ctx.beginPath();
      u.ctx.arc(u.valToPos(x, "x", true), u.valToPos(y, "y", true), 3 * devicePixelRatio, 0, 2 * Math.PI);
      u.ctx.fill();
    }
    u.ctx.restore();
  }
})((window.understudy = window.understudy || {}));
