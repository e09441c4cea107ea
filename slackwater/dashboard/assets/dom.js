// A few helpers: elements are made once and changed only where something is new.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, on) {
  if (on === false || on === null || on === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else {
    const value = on === true ? "" : String(on);
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

// Keeps one child of `parent` for each key, in order.
export function keyed(parent, known, keys, build) {
  for (const [key, held] of known) {
    if (!keys.includes(key)) {
      held.element.remove();
      held.end?.();
      known.delete(key);
    }
  }
  keys.forEach((key, place) => {
    if (!known.has(key)) known.set(key, build(key));
    const element = known.get(key).element;
    if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] ?? null);
  });
}

// A list of figures: label and value, the raw value in `data-value`.
export class Figures {
  constructor(kind) {
    this.element = make("dl", { class: kind });
    this.cells = new Map();
  }

  show(rows) {
    keyed(this.element, this.cells, rows.map(([name]) => name), (name) => {
      const value = make("dd", { "data-figure": name });
      const label = make("dt");
      return { element: make("div", {}, label, value), label, value };
    });
    for (const [name, label, raw, text] of rows) {
      const cell = this.cells.get(name);
      write(cell.label, label);
      write(cell.value, text);
      mark(cell.value, "data-value", JSON.stringify(raw ?? null));
    }
  }
}
