// The plan: operators as boxes in layers, arcs between them. It is laid out only when an operator comes or goes.

import { make, mark, write } from "./dom.js";
import { bytes, number, rate, seconds, share, stamp } from "./format.js";

const WIDE = 212, HIGH = 104, GAP = 22, STEP = 44;

export class Plan {
  constructor(element) {
    this.element = element;
    this.nodes = new Map();
  }

  lay(graph) {
    this.nodes.clear();
    const places = new Map();
    const most = Math.max(1, ...graph.layers.map((layer) => layer.length));
    const width = most * (WIDE + GAP) + GAP;
    graph.layers.forEach((layer, row) => {
      const left = (width - layer.length * (WIDE + GAP) + GAP) / 2;
      layer.forEach((label, n) => places.set(label, [left + n * (WIDE + GAP), GAP + row * (HIGH + STEP)]));
    });
    const height = graph.layers.length * (HIGH + STEP) - STEP + 2 * GAP;
    const field = make("div", { class: "field" });
    field.style.width = `${width}px`;
    field.style.height = `${height}px`;
    field.append(this.arcs(graph, places, width, height));
    for (const [label, [x, y]] of places) field.append(this.box(label, graph.nodes[label], x, y));
    this.element.replaceChildren(field);
  }

  arcs(graph, places, width, height) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-hidden", "true");
    for (const [label, node] of Object.entries(graph.nodes)) {
      for (const feed of node.feeds) {
        if (!places.has(feed)) continue;
        const [x0, y0] = places.get(feed), [x1, y1] = places.get(label);
        const path = document.createElementNS(space, "path");
        const [a, b, c, d] = [x0 + WIDE / 2, y0 + HIGH, x1 + WIDE / 2, y1];
        path.setAttribute("d", `M${a},${b} C${a},${(b + d) / 2} ${c},${(b + d) / 2} ${c},${d} m-4,-7 l4,7 l4,-7`);
        svg.append(path);
      }
    }
    return svg;
  }

  box(label, node, x, y) {
    const lines = ["time", "queue", "rate", "size"].map((name) => make("span", { "data-line": name }));
    const shared = node.queries.length > 1 ? ` · shared by ${node.queries.length}` : "";
    const element = make("div", { class: "node", "data-operator": label, title: `${label}\n${node.about}` },
      make("b", {}, label + shared), make("span", { class: "about" }, node.about.split("\n")[0]), ...lines);
    element.style.left = `${x}px`;
    element.style.top = `${y}px`;
    this.nodes.set(label, { element, lines });
    return element;
  }

  show(operators, holding) {
    for (const [label, { element, lines }] of this.nodes) {
      const of = operators[label];
      if (!of) continue;
      const [time, queue, speed, size] = lines;
      write(time, `♥ ${stamp(of.heartbeat).replace(/^\d{4}-/, "")}${of.lag_seconds === null ? "" : ` · lag ${seconds(of.lag_seconds)}`}`);
      write(queue, `queue ${number(of.queued)}${of.queued_rows ? ` (${number(of.queued_rows)} rows)` : ""}` +
        (of.held ? ` · ${of.held} held back` : "") +
        (of.idle_waiting ? ` · waits for one stream ${share(of.idle_waiting)} of the time` : ""));
      write(speed, `${rate(of.rows_in_rate)} in · ${rate(of.rows_out_rate)} out`);
      write(size, `${bytes(of.memory)} · ${number(of.busy * 100)} % busy`);
      mark(element, "data-queued", of.queued > 0);
      mark(element, "data-busy", of.busy > 0.1);
      mark(element, "data-holds", holding.has(label));
    }
  }
}
