// A card for each query and for each stream.

import { Answers, Lag, Lateness, Lost } from "./charts.js";
import { Figures, make, mark, write } from "./dom.js";
import { instant, isInstant, number, seconds, share, stamp } from "./format.js";
import { ResultTable } from "./results.js";

const KEPT_LAGS = 600;

export class QueryCard {
  constructor(name, post) {
    this.post = post;
    this.badge = make("span", { class: "badge" });
    this.failure = make("p", { class: "wrong", hidden: true });
    this.figures = new Figures("figures");
    this.said = make("p", { class: "said", role: "status" });
    this.where = make("input", { "aria-label": `groups to ask ${name} for`,
      spellcheck: "false", autocapitalize: "off", onkeydown: (key) => key.key === "Enter" && this.prod() });
    this.ask = make("button", { type: "button", class: "main", onclick: () => this.prod() }, "Ask for an early answer");
    this.halt = make("button", { type: "button", class: "danger", onclick: () => this.stop() }, "Stop");
    this.holds = make("p", { class: "holds" });
    this.lag = new Lag();
    this.lags = { at: [], lag: [], rate: [] };
    this.results = new ResultTable(name);
    this.name = name;
    this.early();
    this.loss();
    this.element = make("article", { class: "card", "data-query": name },
      make("div", { class: "top" }, make("h3", {}, name), this.badge),
      this.failure, this.holds, this.figures.element,
      make("div", { class: "ask" }, this.where, this.ask, this.halt), this.said,
      this.results.element, this.answers,
      make("h4", {}, "Lag, and rows a second, since this page was opened"), this.lag.element, this.losses);
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
    this.lostRows = make("tbody");
    this.losses = make("div", { hidden: true }, make("h4", {}, "Lost rows: their windows had been answered"), this.lost.element,
      make("div", { class: "losses wide" }, make("table", {},
        make("thead", {}, make("tr", {}, make("th", {}, "minute"), make("th", {}, "source"), make("th", { class: "number" }, "rows"))),
        this.lostRows)));
  }

  end() {
    [this.chart, this.lost, this.lag, this.results].forEach((part) => part.end());
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

  show(query) {
    const f = query.figures;
    write(this.badge, query.status);
    mark(this.badge, "data-status", query.status);
    this.failure.hidden = !query.failure;
    write(this.failure, query.failure);
    this.ask.disabled = !query.can_prod;
    this.ask.title = query.can_prod ? "Its open windows answer now, from the rows that have come"
      : query.active ? "Only a query with windows can answer early" : "The query has ended";
    this.where.hidden = !query.groups.length;
    this.where.disabled = !query.can_prod;
    this.where.placeholder = `all groups; or some, as in ${query.groups[0]} = '…'`;
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
    write(this.holds, query.holds);
    this.results.tell(query);
    this.note(f.lag_seconds, f.rows);
    this.tell(f.accuracy);
    this.lose(f.losses ?? []);
  }

  note(lag, rows) {
    const now = Date.now() / 1000, { at, lag: lags, rate } = this.lags, last = at.length - 1;
    if (at.length && now - at[last] < 0.5) return;
    const before = this.rows ?? rows;
    this.rows = rows;
    rate.push(at.length ? (rows - before) / (now - at[last]) : null);
    at.push(now);
    lags.push(lag);
    if (at.length > KEPT_LAGS) [at, lags, rate].forEach((kept) => kept.shift());
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
    this.lostRows.replaceChildren(...losses.map(({ minute, source, rows }) =>
      make("tr", {}, make("td", {}, minute), make("td", {}, source ?? "–"), make("td", { class: "number" }, number(rows)))));
  }

  answer(recent) {
    this.recent = recent;
    this.results.set(recent);
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
      make("h4", {}, "How late rows come, and how long the policy waits"), this.chart.element, this.told,
      this.figures.element, this.sources);
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
      ["silent_seconds", "no row for", stream.silent_seconds, seconds(stream.silent_seconds)],
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
      : "No row has come yet, so nobody knows how late they come.");
    const held = Object.entries(stream.held_back_by);
    this.sources.hidden = !held.length;
    const key = JSON.stringify(held);
    if (key !== this.key) {
      this.key = key;
      this.behind.replaceChildren(...held.map(([name, at]) => make("tr", {}, make("td", {}, name), make("td", {}, stamp(at)))));
    }
  }
}
