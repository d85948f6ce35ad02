// Tables sorted by a click on a column's heading. A cell sorts by its data-value, or else by its text; what has no
// value stays at the end either way.
"use strict";

(function (understudy) {
  understudy.sortable = function (table) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = understudy.element("button", { type: "button" }, ...heading.childNodes);
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down ? -1 : 1);
      });
    });
  };

  function sort(table, column, direction) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: keyOf(row.cells[column]) }));
    rows.sort((one, other) => {
      if (one.key === null || other.key === null) return (one.key === null) - (other.key === null);
      const numbers = typeof one.key === "number" && typeof other.key === "number";
      return direction * (numbers ? one.key - other.key : String(one.key).localeCompare(String(other.key), "en", { numeric: true }));
    });
    body.append(...rows.map(({ row }) => row));
  }

  function keyOf(cell) {
    const given = cell.dataset.value ?? cell.textContent.trim();
    if (given === "" || given === "–") return null;
    const number = Number(given);
    return Number.isNaN(number) ? given : number;
  }
})((window.understudy = window.understudy || {}));
