// The page: events come in, the newest figures are drawn with the next frame.

import { QueryCard, StreamCard } from "./cards.js";
import { Figures, keyed, make, mark, write } from "./dom.js";
import { bytes, number, rate, seconds, stamp } from "./format.js";
import { Plan } from "./plan.js";

const SECTIONS = ["session", "graph", "operators", "streams", "queries", "answers"];
const RETRY = 1000, SILENCE = 25000;
const at = (id) => document.getElementById(id);
const state = { streams: [], queries: [], operators: {}, answers: new Map() };
const fresh = new Set();
const queries = new Map(), streams = new Map(), rows = new Map();
const facts = new Figures("facts"), plan = new Plan(at("plan"));
at("session").replaceWith(facts.element);
facts.element.id = "session";
let source, heard = 0, frame = null;

function connect() {
  source?.close();
  source = new EventSource("/events");
  source.onopen = () => said("open", "live");
  source.onerror = () => {
    said("lost", "connection lost, trying again …");
    // The browser tries again by itself, unless the server has answered with an error.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY);
  };
  for (const name of SECTIONS) source.addEventListener(name, (event) => take(name, JSON.parse(event.data)));
}

function said(how, text) {
  heard = Date.now();
  mark(at("link"), "data-state", how);
  write(at("link"), text);
}

function take(name, data) {
  heard = Date.now();
  if (name === "answers") state.answers.set(data.query, data);
  else state[name] = data;
  fresh.add(name === "answers" ? `answers/${data.query}` : name);
  frame ??= requestAnimationFrame(draw);
}

function draw() {
  frame = null;
  const news = new Set(fresh);
  fresh.clear();
  if (news.has("session")) drawSession();
  if (news.has("graph")) plan.lay(state.graph);
  if (news.has("queries") || news.has("streams")) drawQueries();
  for (const name of state.answers.keys()) {
    if (news.has(`answers/${name}`)) queries.get(name)?.answer(state.answers.get(name));
  }
  if (news.has("streams")) drawStreams();
  if (news.has("operators") || news.has("graph")) drawOperators();
}

function drawSession() {
  const s = state.session;
  facts.show([
    ["rows_rate", "rows", s.rows_rate, rate(s.rows_rate)],
    ["queued", "queued", s.queued, number(s.queued)],
    ["memory", "memory", s.memory, bytes(s.memory)],
    ["strategy", "strategy", s.strategy, s.strategy],
    ["spark_jobs", "Spark jobs", s.spark_jobs, number(s.spark_jobs)],
    ["spark_seconds", "in Spark", s.spark_seconds, seconds(s.spark_seconds)],
    ["held_bytes", "waits in memory", s.held_bytes, bytes(s.held_bytes)],
    ["spool_bytes", "waits on disk", s.spool_bytes, bytes(s.spool_bytes)],
    ["journal_bytes", "journal", s.journal_bytes, bytes(s.journal_bytes)],
  ]);
  at("spark").hidden = !s.spark_ui;
  if (/^https?:/.test(s.spark_ui)) mark(at("spark"), "href", s.spark_ui);
  const button = at("pause");
  button.disabled = false;
  write(button, s.paused ? "Resume" : "Pause");
  mark(button, "data-paused", s.paused);
  document.title = s.paused ? "Slackwater (paused)" : "Slackwater";
}

function drawQueries() {
  at("no-queries").hidden = state.queries.length > 0;
  keyed(at("queries"), queries, state.queries.map((query) => query.name), (name) => new QueryCard(name, post));
  for (const query of state.queries) {
    const card = queries.get(query.name);
    card.show(query);
    if (!card.recent && state.answers.has(query.name)) card.answer(state.answers.get(query.name));
  }
}

function drawStreams() {
  at("no-streams").hidden = state.streams.length > 0;
  const key = (stream) => `${stream.name}\n${stream.disorder}`;
  keyed(at("streams"), streams, state.streams.map(key), () => new StreamCard());
  for (const stream of state.streams) streams.get(key(stream)).show(stream);
}

const COLUMNS = [
  ["operator", (label) => label],
  ["heartbeat", (label, of) => stamp(of.heartbeat)],
  ["lag", (label, of) => seconds(of.lag_seconds)],
  ["queued", (label, of) => number(of.queued)],
  ["rows in", (label, of) => number(of.rows_in)],
  ["in/s", (label, of) => number(of.rows_in_rate)],
  ["out/s", (label, of) => number(of.rows_out_rate)],
  ["memory", (label, of) => bytes(of.memory)],
  ["busy", (label, of) => `${number(of.busy * 100)} %`],
  ["runs", (label, of) => number(of.runs)],
  ["runs/s", (label, of) => number(of.runs_rate)],
  ["µs a row", (label, of) => (of.cost === null ? "–" : number(of.cost * 1e6))],
  ["waits for", (label, of) => (of.waits_for === label ? "" : of.waits_for ?? "")],
];

function drawOperators() {
  const table = at("operators");
  if (!table.tHead) {
    table.append(make("thead", {}, make("tr", {}, ...COLUMNS.map(([name], n) =>
      make("th", { class: n > 1 && n < 12 ? "number" : null }, name)))), make("tbody"));
  }
  keyed(table.tBodies[0], rows, Object.keys(state.operators), (label) => {
    const cells = COLUMNS.map(([name], n) => make("td", { class: n > 1 && n < 12 ? "number" : null, "data-column": name }));
    return { element: make("tr", { "data-row": label }, ...cells), cells };
  });
  for (const [label, of] of Object.entries(state.operators)) {
    const { cells } = rows.get(label);
    COLUMNS.forEach(([, text], n) => write(cells[n], text(label, of)));
  }
  plan.show(state.operators, new Set(state.queries.filter((query) => query.active).map((query) => query.waits_for)));
  const last = Object.entries(state.operators).filter(([, of]) => of.last_run > 0)
    .sort(([, a], [, b]) => b.last_run - a.last_run).slice(0, 6).map(([label]) => label);
  write(at("choices"), last.length ? `${state.session?.strategy ?? "The strategy"} chose last: ${last.join(", ")}.` : "");
}

async function post(path, body = {}) {
  try {
    const answer = await fetch(path, { method: "POST", body: JSON.stringify(body),
      headers: { "content-type": "application/json", "x-slackwater": "1" } });
    if (answer.ok) return null;
    return (await answer.json()).error ?? `error ${answer.status}`;
  } catch {
    return "the session cannot be reached";
  }
}

at("pause").addEventListener("click", async () => {
  const error = await post(state.session.paused ? "/resume" : "/pause");
  if (error) said("lost", error);
});
// A connection may be gone without a word, as when a phone has slept.
setInterval(() => Date.now() - heard > SILENCE && connect(), 5000);
connect();
