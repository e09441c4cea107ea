// A card for each query and for each stream.

import { Answers, Lag, Lateness, Lost } from "./charts.js";
import { Figures, make, mark, write } from "./dom.js";
import { instant, isInstant, number, seconds, share, stamp } from "./format.js";

const KEPT_LAGS = 600;

export class QueryCard {
  constructor(name, post) {
    this.post = post;
    this.badge = make("span", { class: "badge" });
    this.failure = make("p", { class: "wrong", hidden: true });
    this.figures = new Figures("figures");
    this.said = make("p", { class: "said", role: "status" });
    this.where = make("input", { placeholder: "only groups, as in carrier = 'AA'", "aria-label": `groups to ask ${name} for`,
      spellcheck: "false", autocapitalize: "off", onkeydown: (key) => key.key === "Enter" && this.prod() });
    this.ask = make("button", { type: "button", class: "main", onclick: () => this.prod() }, "Refresh");
    this.halt = make("button", { type: "button", class: "danger", onclick: () => this.stop() }, "Stop");
    this.holds = make("p", { class: "quiet" });
    this.lag = new Lag();
    this.lags = { at: [], lag: [] };
    this.name = name;
    this.early();
    this.loss();
    this.element = make("article", { class: "card", "data-query": name },
      make("div", { class: "top" }, make("h3", {}, name), this.badge),
      this.failure, this.figures.element, this.holds,
      make("div", { class: "ask" }, this.where, this.ask, this.halt), this.said,
      make("h4", {}, "Lag since this page was opened"), this.lag.element, this.answers, this.losses);
  }

  early() {
    this.group = make("select", { "aria-label": "group", onchange: () => this.draw() });
    this.value = make("select", { "aria-label": "aggregate", onchange: () => this.draw() });
    this.chart = new Answers();
    this.accuracy = make("p", { class: "quiet", "data-part": "accuracy" });
    this.answers = make("div", { hidden: true },
      make("h4", {}, "Early against final", this.value, this.group), this.chart.element, this.accuracy);
  }

  loss() {
    this.lost = new Lost();
    this.rows = make("tbody");
    this.losses = make("div", { hidden: true }, make("h4", {}, "Lost rows: their windows had been answered"), this.lost.element,
      make("div", { class: "losses wide" }, make("table", {},
        make("thead", {}, make("tr", {}, make("th", {}, "minute"), make("th", {}, "source"), make("th", { class: "number" }, "rows"))),
        this.rows)));
  }

  end() {
    [this.chart, this.lost, this.lag].forEach((chart) => chart.end());
  }

  async prod() {
    const where = this.where.value.trim();
    await this.send("prod", where ? { where } : {}, (at) => `asked at ${at}${where ? `, for ${where}` : ""}`);
  }

  async stop() {
    if (!this.sure) {
      this.sure = setTimeout(() => this.unsure(), 4000);
      write(this.halt, "Really stop?");
      return;
    }
    this.unsure();
    await this.send("stop", {}, (at) => `stopped at ${at}`);
  }

  unsure() {
    clearTimeout(this.sure);
    this.sure = null;
    write(this.halt, "Stop");
  }

  async send(what, body, told) {
    const error = await this.post(`/queries/${encodeURIComponent(this.name)}/${what}`, body);
    mark(this.said, "data-wrong", Boolean(error));
    write(this.said, error ?? told(new Date().toLocaleTimeString()));
  }

  show(query, streams) {
    const f = query.figures;
    write(this.badge, query.status);
    mark(this.badge, "data-status", query.status);
    this.failure.hidden = !query.failure;
    write(this.failure, query.failure);
    this.ask.disabled = !query.can_prod;
    this.ask.title = query.can_prod ? "Ask for early results now" : "Only windows that are open can answer early";
    this.where.disabled = !query.can_prod || !query.groups.length;
    if (query.groups.length) this.where.placeholder = `only some groups, by ${query.groups.join(", ")}`;
    this.halt.disabled = !query.active;
    this.figures.show([
      ["heartbeat", "heartbeat", f.heartbeat, stamp(f.heartbeat)],
      ["lag_seconds", "lag", f.lag_seconds, seconds(f.lag_seconds)],
      ["rows", "rows", f.rows, number(f.rows)],
      ["queued", "queued", f.queued, number(f.queued)],
      ...optional(f, "windows", "windows closed", number),
      ...optional(f, "results", "final results", number),
      ...optional(f, "early_results", "early results", number),
      ...optional(f, "late_rows", "late rows", number),
      ...optional(f, "lost_share", "lost", share),
      ...optional(f, "state_bytes", "state bytes", number),
    ]);
    write(this.holds, held(query, streams));
    this.note(f.lag_seconds);
    this.tell(f.accuracy);
    this.lose(f.losses ?? []);
  }

  note(lag) {
    const now = Date.now() / 1000, { at, lag: kept } = this.lags;
    if (lag === null || (at.length && now - at[at.length - 1] < 0.5)) return;
    at.push(now);
    kept.push(lag);
    if (at.length > KEPT_LAGS) {
      at.shift();
      kept.shift();
    }
    if (at.length > 1) this.lag.set(this.lags);
  }

  tell(accuracy) {
    const told = Object.entries(accuracy ?? {}).filter(([, of]) => of.pairs).map(([name, of]) =>
      `${name}: accuracy ${share(of.estimate)} (${share(of.seen)} without an estimate)` +
      `${of.coverage === null ? "" : `, intervals held ${share(of.coverage)}`}, ${seconds(of.latency_gain)} earlier`);
    write(this.accuracy, told.length ? `So far — ${told.join("; ")}` : "No early answer has become final yet.");
  }

  lose(losses) {
    this.losses.hidden = !losses.length;
    const key = JSON.stringify(losses);
    if (!losses.length || key === this.lostKey) return;
    this.lostKey = key;
    const minutes = new Map();
    for (const { minute, rows } of losses) minutes.set(minute, (minutes.get(minute) ?? 0) + rows);
    const order = [...minutes.keys()].reverse();
    this.lost.set({ minutes: order.map(instant), rows: order.map((m) => minutes.get(m)), timed: isInstant(order[0]) });
    this.rows.replaceChildren(...losses.map(({ minute, source, rows }) =>
      make("tr", {}, make("td", {}, minute), make("td", {}, source ?? "–"), make("td", { class: "number" }, number(rows)))));
  }

  answer(recent) {
    this.recent = recent;
    this.answers.hidden = !recent.windows.length || !recent.values.length;
    choices(this.group, recent.groups);
    choices(this.value, recent.values);
    this.draw();
  }

  draw() {
    const { recent } = this, value = this.value.value, group = this.group.value;
    const windows = recent.windows.filter((window) => window.group === group);
    const early = (window, what) => window.early?.values[value]?.[what] ?? null;
    this.chart.set(windows.length ? {
      timed: isInstant(windows[0].window_end),
      name: value,
      ends: windows.map((window) => instant(window.window_end)),
      low: windows.map((window) => early(window, "low")),
      high: windows.map((window) => early(window, "high")),
      early: windows.map((window) => early(window, "estimate")),
      final: windows.map((window) => window.final?.values[value] ?? null),
    } : null);
  }
}

function optional(figures, name, label, text) {
  return name in figures ? [[name, label, figures[name], text(figures[name])]] : [];
}

function held(query, streams) {
  if (!query.active || !query.waits_for) return "";
  const name = query.waits_for.replace(/^source:/, "");
  const stream = streams.find((of) => of.name === name && of.queries.includes(query.name));
  const sources = Object.keys(stream?.held_back_by ?? {}).slice(0, 3);
  return `Time waits for ${name}${sources.length ? `, there for ${sources.join(", ")}` : ""}.`;
}

function choices(select, names) {
  const chosen = select.value;
  if ([...select.options].map((option) => option.value).join("\n") === names.join("\n")) return;
  select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  if (names.includes(chosen)) select.value = chosen;
  select.hidden = names.length < 2;
}

export class StreamCard {
  constructor() {
    this.title = make("h3");
    this.policy = make("span", { class: "badge" });
    this.figures = new Figures("figures");
    this.chart = new Lateness();
    this.told = make("p", { class: "quiet", "data-part": "beyond" });
    this.behind = make("tbody");
    this.sources = make("div", { hidden: true }, make("h4", {}, "Sources that hold time back"),
      make("table", {}, this.behind));
    this.element = make("article", { class: "card" }, make("div", { class: "top" }, this.title, this.policy),
      this.figures.element, make("h4", {}, "How late rows come, and how long the policy waits"),
      this.chart.element, this.told, this.sources);
  }

  end() {
    this.chart.end();
  }

  show(stream) {
    mark(this.element, "data-stream", stream.name);
    write(this.title, stream.name);
    write(this.policy, stream.idle ? `${stream.disorder}: idle, others do not wait for it` : stream.disorder);
    const timed = isInstant(stream.heartbeat), text = timed ? seconds : number;
    this.figures.show([
      ["heartbeat", "heartbeat", stream.heartbeat, stamp(stream.heartbeat)],
      ["lag_seconds", "lag", stream.lag_seconds, seconds(stream.lag_seconds)],
      ["wait", "policy waits", stream.wait, text(stream.wait)],
      ["rows", "rows", stream.rows, number(stream.rows)],
      ["pages", "pages", stream.pages, number(stream.pages)],
      ["missing_time", "without a time", stream.missing_time, number(stream.missing_time)],
      ["far_ahead", "time far ahead", stream.far_ahead, number(stream.far_ahead)],
      ...["p50", "p99", "max"].filter((name) => name in stream.lateness)
        .map((name) => [`lateness.${name}`, `late, ${name}`, stream.lateness[name], text(stream.lateness[name])]),
    ]);
    const shares = stream.lateness_shares;
    const late = shares.filter(([by]) => by > 0).reduce((sum, [, part]) => sum + part, 0);
    const beyond = shares.filter(([by]) => stream.wait !== null && by > stream.wait).reduce((sum, [, part]) => sum + part, 0);
    this.chart.set(late > 0 ? { shares, wait: stream.wait, timed } : null);
    write(this.told, shares.length ? `${share(1 - late)} of the rows are not behind; ${share(beyond)} come later than the policy waits now.`
      : "Nothing is known yet of how late rows come.");
    const held = Object.entries(stream.held_back_by);
    this.sources.hidden = !held.length;
    const key = JSON.stringify(held);
    if (key !== this.key) {
      this.key = key;
      this.behind.replaceChildren(...held.map(([name, at]) => make("tr", {}, make("td", {}, name), make("td", {}, stamp(at)))));
    }
  }
}
