// Charts, drawn by uPlot; each is drawn again at most four times a second, and only while it is to be seen.

import uPlot from "./uplot/uPlot.esm.js";
import { number, seconds } from "./format.js";

const DRAW_EVERY = 250;
const charts = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => charts.forEach((chart) => chart.again()));

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = entry.target.chart;
    chart.visible = entry.isIntersecting;
    chart.plan();
  }
});
const sized = new ResizeObserver((entries) => entries.forEach((entry) => entry.target.chart.resize()));

// Times on an axis, of 24 hours and in UTC, from years down to milliseconds.
const CLOCK = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [0.001, ":{ss}.{fff}", "\n{YYYY}-{MM}-{DD} {HH}:{mm}", null, "\n{MM}-{DD} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];
const SHOWN = "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}";
const utc = (stamp) => uPlot.tzDate(new Date(stamp * 1e3), "Etc/UTC");

function times(axis, timed) {
  return timed ? { ...axis, values: CLOCK, space: 70 } : axis;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

class Chart {
  constructor(height) {
    this.height = height;
    this.element = document.createElement("div");
    this.element.className = "chart";
    this.element.chart = this;
    this.visible = false;
    this.drawn = 0;
    charts.add(this);
    seen.observe(this.element);
    sized.observe(this.element);
  }

  set(data) {
    this.data = data;
    this.element.hidden = !data;
    this.fresh = true;
    this.plan();
  }

  plan() {
    if (!this.visible || !this.fresh || !this.data || this.waiting) return;
    const wait = Math.max(0, DRAW_EVERY - (performance.now() - this.drawn));
    this.waiting = setTimeout(() => requestAnimationFrame(() => this.draw()), wait);
  }

  draw() {
    this.waiting = null;
    this.drawn = performance.now();
    if (!this.data || !this.element.clientWidth) return;
    this.fresh = false;
    const shape = this.shape();
    if (this.plot && this.key === shape) this.plot.setData(this.columns());
    else {
      this.plot?.destroy();
      this.key = shape;
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--grid") }, ticks: { stroke: colour("--grid") } };
      this.plot = new uPlot(
        { width: this.element.clientWidth, height: this.height, ...this.options(axis) }, this.columns(), this.element);
    }
  }

  again() {
    this.key = null;
    this.fresh = true;
    this.plan();
  }

  resize() {
    const width = this.element.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  end() {
    clearTimeout(this.waiting);
    seen.unobserve(this.element);
    sized.unobserve(this.element);
    charts.delete(this);
    this.plot?.destroy();
  }

  shape() {
    return "";
  }
}

// How late rows come: a bar for each bin of lateness, and a line where the policy stops waiting.
// data: { shares: [[lateness, share]], wait, timed }
export class Lateness extends Chart {
  constructor() {
    super(170);
  }

  shape() {
    return String(this.data.timed);
  }

  columns() {
    const bins = this.data.shares.filter(([late]) => late > 0);
    return [bins.map(([late]) => late), bins.map(([, part]) => part * 100)];
  }

  options(axis) {
    const text = this.data.timed ? seconds : number;
    return {
      scales: {
        x: { time: false, distr: 3, range: (plot, low, high) => this.range(low, high) },
        y: { range: (plot, low, high) => [0, Math.max(high, 0.001) * 1.1] },
      },
      series: [
        { label: "late by", value: (plot, value) => text(value) },
        { label: "% of rows", stroke: colour("--accent"), fill: colour("--accent"),
          paths: uPlot.paths.bars({ size: [0.8, 26] }), points: { show: false }, value: (plot, v) => number(v) },
      ],
      axes: [{ ...axis, values: (plot, ticks) => ticks.map((tick) => (tick === null ? "" : text(tick))) },
        { ...axis, size: 56, values: (plot, ticks) => ticks.map((tick) => `${number(tick)} %`) }],
      hooks: { draw: [(plot) => this.line(plot)] },
    };
  }

  range(low, high) {
    const all = [low, high, this.data.wait].filter((value) => value > 0);
    if (!all.length) return [0.1, 10];
    return [Math.min(...all) / 1.5, Math.max(...all) * 1.5];
  }

  line(plot) {
    if (!(this.data.wait > 0)) return;
    const at = plot.valToPos(this.data.wait, "x", true);
    const { left, top, width, height } = plot.bbox;
    if (at < left || at > left + width) return;
    const ink = plot.ctx;
    ink.save();
    ink.strokeStyle = ink.fillStyle = colour("--bad");
    ink.lineWidth = 2 * devicePixelRatio;
    ink.beginPath();
    ink.moveTo(at, top);
    ink.lineTo(at, top + height);
    ink.stroke();
    ink.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    const right = at < left + width / 2;
    ink.textAlign = right ? "left" : "right";
    ink.fillText("wait", at + (right ? 5 : -5) * devicePixelRatio, top + 12 * devicePixelRatio);
    ink.restore();
  }
}

// Early answers with their intervals, and final ones.  data: { ends, early, low, high, final, timed, name }
export class Answers extends Chart {
  constructor() {
    super(200);
  }

  shape() {
    return `${this.data.timed} ${this.data.name}`;
  }

  columns() {
    const { ends, low, high, early, final } = this.data;
    return [ends, low, high, early, final];
  }

  options(axis) {
    const value = (plot, v) => (v === null ? "–" : number(v));
    const dot = { show: true, size: 6 };
    const edge = { stroke: "transparent", points: { show: false }, value };
    return {
      scales: { x: { time: this.data.timed } },
      tzDate: utc,
      series: [
        { label: "window end", ...(this.data.timed ? { value: SHOWN } : {}) },
        { ...edge, label: "low" },
        { ...edge, label: "high" },
        { label: "early", stroke: colour("--early"), points: { ...dot, fill: colour("--early") }, value },
        { label: "final", stroke: colour("--final"), width: 2, points: { ...dot, fill: colour("--final") }, value },
      ],
      bands: [{ series: [2, 1], fill: colour("--band") }],
      axes: [times(axis, this.data.timed), { ...axis, size: 64 }],
    };
  }
}

// Rows lost, by minute.  data: { minutes, rows, timed }
export class Lost extends Chart {
  constructor() {
    super(120);
  }

  shape() {
    return String(this.data.timed);
  }

  columns() {
    return [this.data.minutes, this.data.rows];
  }

  options(axis) {
    return {
      scales: { x: { time: this.data.timed, range: (plot, low, high) => this.range(low, high) },
        y: { range: (plot, low, high) => [0, Math.max(1, high * 1.1)] } },
      tzDate: utc,
      series: [{ label: "minute", ...(this.data.timed ? { value: SHOWN } : {}) }, { label: "rows lost", stroke: colour("--bad"), fill: colour("--bad"),
        paths: uPlot.paths.bars({ size: [0.7, 30] }), points: { show: false } }],
      axes: [times(axis, this.data.timed), { ...axis, size: 56 }],
    };
  }

  range(low, high) {
    const one = low === high ? 60 : (high - low) / Math.max(1, this.data.minutes.length - 1);
    return [low - one, high + one];
  }
}

// How the lag and the rows a second went since the page was opened.  data: { at, lag, rate }
export class Lag extends Chart {
  constructor() {
    super(150);
  }

  columns() {
    return [this.data.at, this.data.lag, this.data.rate];
  }

  options(axis) {
    const line = { width: 1.5, points: { show: false } };
    const from0 = (plot, low, high) => [Math.min(0, low ?? 0), Math.max(1, high ?? 1) * 1.1];
    return {
      scales: { y: { range: from0 }, rate: { range: from0 } },
      series: [{ label: "time" },
        { ...line, label: "lag", stroke: colour("--accent"), value: (plot, v) => seconds(v) },
        { ...line, label: "rows a second", scale: "rate", stroke: colour("--early"), value: (plot, v) => number(v) }],
      axes: [times(axis, true), { ...axis, size: 64, values: (plot, ticks) => ticks.map((tick) => seconds(tick)) },
        { ...axis, scale: "rate", side: 1, size: 64, grid: { show: false },
          values: (plot, ticks) => ticks.map((tick) => `${number(tick)}/s`) }],
    };
  }
}

// A print has all charts, also those that are not on the screen.
addEventListener("beforeprint", () => charts.forEach((chart) => chart.draw()));
