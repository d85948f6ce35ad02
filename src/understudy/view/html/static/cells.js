// A table of numbers as shades, or of states as colours: who held what, who answered when, recall by class and round.
// `understudy.cells(figure, values)` returns {update(values)}.
"use strict";

(function (understudy) {
  const { element, shown } = understudy;
  const TALLEST = 24, ROOM = 460; // pixels: of a row, and for all rows before they shrink
  const LETTER = 6.6, LONGEST = 22; // pixels of a letter, letters of a name
  const HEAD = 34; // pixels below the cells for the names of columns
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';

  understudy.cells = function (figure, first) {
    let values = first, place = null, shape = null;
    const plot = figure.querySelector(".plot") || figure.appendChild(element("div", { class: "plot" }));
    plot.setAttribute("tabindex", "0");
    plot.setAttribute("role", "img");
    const canvas = plot.appendChild(element("canvas"));
    const legend = element("ul", { class: "legend" });
    plot.after(legend);
    const tip = understudy.tip(plot);
    const tools = understudy.tools(figure, values.name, values.heading, () => asTable(values));

    function draw() {
      plot.setAttribute("aria-label", `${values.heading}: ${values.rows.names.length} ${values.rows.label} by ${values.columns.names.length} ${values.columns.label}. Arrow keys read out values; the table below has all.`);
      shape = paint(canvas, values, plot.clientWidth || 300);
      legend.replaceChildren(...legendOf(values));
    }

    function point(row, column) {
      place = [row, column];
      const cell = values.cells[row][column];
      const words = values.states.length ? (cell === null ? "–" : values.states[cell].label) : shown(cell) + (cell === null ? "" : values.unit);
      tip.show(shape.left + (column + 0.5) * shape.wide, (row + 0.5) * shape.tall, [
        element("strong", {}, `${values.rows.names[row]} · ${values.columns.label} ${values.columns.names[column]}`),
        element("div", {}, words)]);
    }

    canvas.addEventListener("pointermove", (event) => {
      const column = Math.floor((event.offsetX - shape.left) / shape.wide), row = Math.floor(event.offsetY / shape.tall);
      if (row >= 0 && row < values.rows.names.length && column >= 0 && column < values.columns.names.length) point(row, column);
      else tip.hide();
    });
    plot.addEventListener("pointerleave", () => tip.hide());
    plot.addEventListener("blur", () => tip.hide());
    plot.addEventListener("keydown", (event) => {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (event.key === "Escape") tip.hide();
      if (!(event.key in steps) || !values.rows.names.length || !values.columns.names.length) return;
      event.preventDefault();
      const [row, column] = place || [0, -1], [down, right] = place ? steps[event.key] : [0, 1];
      point(Math.min(Math.max(row + down, 0), values.rows.names.length - 1), Math.min(Math.max(column + right, 0), values.columns.names.length - 1));
      tip.say();
    });
    new ResizeObserver(draw).observe(plot);
    understudy.whenColoursChange(draw);
    draw();
    return { update(newer) { values = newer; place = null; draw(); tools.refresh(); } };
  };

  function paint(canvas, values, width) {
    const { rows, columns, cells, states } = values;
    const tall = Math.min(Math.max(ROOM / Math.max(rows.names.length, 1), 1), TALLEST);
    const letters = Math.min(Math.max(...rows.names.map((name) => name.length), 1), LONGEST);
    const left = Math.min(letters * LETTER + 14, width / 2.6);
    const wide = Math.min((width - left - 8) / Math.max(columns.names.length, 1), 90);
    const height = tall * rows.names.length + HEAD;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const colours = states.length ? states.map((state) => understudy.colour(state.colour)) : shades(values);
    const gap = Math.min(tall, wide) > 6 ? 1 : 0, none = understudy.colour("raised");
    cells.forEach((line, row) => line.forEach((cell, column) => {
      pen.fillStyle = cell === null ? none : states.length ? colours[cell] : colours(cell);
      if (!states.length && cell === 0) pen.fillStyle = none;
      pen.fillRect(left + column * wide, row * tall, Math.max(wide - gap, 0.5), Math.max(tall - gap, 0.5));
    }));
    names(pen, values, { left, wide, tall, width });
    return { left, wide, tall };
  }

  function names(pen, { rows, columns }, { left, wide, tall, width }) {
    pen.font = FONT;
    pen.fillStyle = understudy.colour("soft");
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const every = round(14 / tall);
    rows.names.forEach((name, row) => {
      if (row % every === 0) pen.fillText(shortened(name, Math.floor((left - 12) / LETTER)), left - 6, Math.max((row + 0.5) * tall, 7));
    });
    pen.textAlign = "center";
    const longest = Math.max(...columns.names.map((name) => Math.min(name.length, 12)), 1);
    const step = round((longest * LETTER + 6) / wide);
    const below = rows.names.length * tall + 9;
    columns.names.forEach((name, column) => {
      if (column % step === 0) pen.fillText(shortened(name, 12), left + (column + 0.5) * wide, below);
    });
    pen.fillText(columns.label, left + Math.min(columns.names.length * wide, width - left) / 2, below + 16);
  }

  // The next larger step that people count in.
  function round(least) {
    return [1, 2, 5, 10, 20, 50, 100, 200, 500].find((one) => one >= least) ?? Math.ceil(least);
  }

  function shortened(name, most) {
    return name.length <= most ? name : `${name.slice(0, Math.max(most - 1, 1))}…`;
  }

  // The square root for counts: a client's few records of a class stay visible beside its thousands.
  function shades({ cells, scale, most }) {
    const top = most ?? Math.max(...cells.map((line) => Math.max(...line.map((cell) => cell ?? 0), 0)), 0);
    const low = rgb(understudy.colour("heat-low")), high = rgb(understudy.colour("heat-high"));
    return (cell) => {
      const share = top > 0 ? Math.min(Math.max(cell / top, 0), 1) : 0;
      const depth = scale === "count" ? Math.sqrt(share) : share;
      return `rgb(${low.map((from, at) => Math.round(from + (high[at] - from) * depth)).join(",")})`;
    };
  }

  function rgb(hex) {
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  }

  function legendOf(values) {
    const block = (colour) => {
      const made = element("span", { class: "swatch block" });
      made.style.color = colour;
      return made;
    };
    if (values.states.length) {
      const used = new Set(values.cells.flat());
      return values.states.flatMap((state, at) => (used.has(at) ? [element("li", {}, block(understudy.colour(state.colour)), state.label)] : []));
    }
    const colour = shades(values), known = values.cells.flat().filter((cell) => cell !== null && cell > 0);
    if (!known.length) return [];
    const top = values.most ?? known.reduce((one, other) => Math.max(one, other));
    const low = known.reduce((one, other) => Math.min(one, other));
    const ends = low === top ? [top] : [low, top];
    return [element("li", {}, block(understudy.colour("raised")), values.scale === "count" ? "none" : "0 or not known"),
      ...ends.map((value) => element("li", {}, block(colour(value)), shown(value) + values.unit))];
  }

  function asTable({ rows, columns, cells, states }) {
    const said = (cell) => (states.length && cell !== null ? states[cell].label : cell);
    return { columns: [rows.label, ...columns.names], rows: rows.names.map((name, row) => [name, ...cells[row].map(said)]) };
  }
})((window.understudy = window.understudy || {}));
