// The latest result rows of a query as a table: sorted by a click on a column, filtered by a text.

import { make, mark, write } from "./dom.js";
import { stamp } from "./format.js";

const DRAW_EVERY = 500;
const collator = new Intl.Collator("en", { numeric: true });

export class ResultTable {
  constructor(name) {
    this.filter = make("input", { type: "search", placeholder: "filter rows", "aria-label": `filter the rows of ${name}`,
      spellcheck: "false", autocapitalize: "off", oninput: () => this.draw() });
    this.count = make("span", { class: "quiet" });
    this.head = make("tr");
    this.body = make("tbody");
    this.scroll = make("div", { class: "rows", tabindex: "0", hidden: true },
      make("table", {}, make("thead", {}, this.head), this.body));
    this.empty = make("p", { class: "quiet" }, "No result row has come yet.");
    this.element = make("div", { "data-part": "rows" },
      make("h4", {}, "Latest result rows", this.filter, this.count), this.scroll, this.empty);
    this.order = null;
    this.data = { columns: [], rows: [] };
  }

  end() {
    clearTimeout(this.waiting);
  }

  tell(query) {
    const written = (query.figures.results ?? 0) + (query.figures.early_results ?? 0);
    write(this.empty, written ? "Its last results came many at a time: look at them in the sink."
      : query.can_prod ? "No result row has come yet. A window answers when event time has passed its end; or ask for an early answer."
      : "No result row has come yet.");
  }

  set({ columns, rows }) {
    const same = columns.join("\n") === this.data.columns.join("\n");
    this.data = { columns, rows };
    this.scroll.hidden = this.filter.hidden = !rows.length;
    this.empty.hidden = rows.length > 0;
    if (!same) {
      this.order = null;
      this.head.replaceChildren(...columns.map((name, n) =>
        make("th", { scope: "col" }, make("button", { type: "button", onclick: () => this.sort(n) }, name))));
    }
    this.waiting ??= setTimeout(() => this.draw(), same ? DRAW_EVERY : 0);
  }

  // Largest first, then smallest first, then as they came.
  sort(column) {
    const [by, down] = this.order ?? [];
    this.order = by !== column ? [column, true] : down ? [column, false] : null;
    this.draw();
  }

  draw() {
    clearTimeout(this.waiting);
    this.waiting = null;
    const { columns, rows } = this.data, text = this.filter.value.trim().toLowerCase();
    const kind = columns.indexOf("kind"), [by, down] = this.order ?? [];
    let shown = rows.filter((row) => !text || row.some((cell) => shownAs(cell).toLowerCase().includes(text)));
    if (by !== undefined) shown = [...shown].sort((a, b) => compare(a[by], b[by], down));
    [...this.head.children].forEach((cell, n) => mark(cell, "aria-sort", n === by && (down ? "descending" : "ascending")));
    write(this.count, shown.length < rows.length ? `${shown.length} of ${rows.length}` : `${rows.length}, the newest first`);
    this.body.replaceChildren(...shown.map((row) => make("tr", { "data-kind": row[kind] },
      ...row.map((cell) => make("td", { class: typeof cell === "number" ? "number" : null }, shownAs(cell))))));
  }
}

function shownAs(cell) {
  return cell === null ? "–" : typeof cell !== "number" ? stamp(cell)
    : String(Number.isInteger(cell) ? cell : Number(cell.toPrecision(6)));
}

// A row without a value comes last, whichever way.
function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null);
  // A decimal comes as text.
  const both = Number(a) - Number(b), found = Number.isFinite(both) ? both : collator.compare(String(a), String(b));
  return down ? -found : found;
}
