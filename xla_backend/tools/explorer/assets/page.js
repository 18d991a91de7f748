"use strict";
// State lives in the address: #pass=3&place=7&kernel=fusion&instruction=add.1&mode=diff&code=loop_ir.
// Every link is an address, so that back, forward and bookmarks work; drawing reads the address.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const CONTEXT = 3;
// Kernels of a GPU say how they are launched.
const gpu = data.kernels.some((kernel) => kernel.launches.length);
const CODES = { loop_ir: "loop IR", llvm_ir: "LLVM IR", assembly: gpu ? "PTX" : "assembly" };
const kernelOf = new Map();
for (const kernel of data.kernels)
  for (const name of kernel.instructions) kernelOf.set(name, kernel.name);

function state() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name, otherwise) => (given.has(name) ? Number(given.get(name)) : otherwise);
  return {
    pass: Math.min(number("pass", data.passes.length - 1), data.passes.length - 1),
    place: number("place", -1),
    kernel: given.get("kernel") ?? data.kernels[0]?.name ?? "",
    instruction: given.get("instruction") ?? "",
    mode: given.get("mode") ?? "diff",
    code: given.get("code") ?? "loop_ir",
  };
}

function address(changes) {
  const all = { ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))), ...changes };
  for (const name of Object.keys(all)) if (all[name] === null) delete all[name];
  return "#" + new URLSearchParams(all);
}

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== null && value !== false) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const link = (changes, text, attributes = {}) =>
  element("a", { href: address(changes), ...attributes }, text);

function amount(value, unit, base = 1000, names = ["", "k", "M", "G", "T"]) {
  let power = 0;
  while (value >= base && power < names.length - 1) { value /= base; power++; }
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${names[power]}${unit}`;
}
const bytes = (n) => amount(n, "B", 1024, ["", "Ki", "Mi", "Gi"]);
const flops = (n) => amount(n, "flop");
const costText = (cost) => [
  cost.flops ? flops(cost.flops) : "",
  cost.transcendentals ? amount(cost.transcendentals, "transc.") : "",
  cost.bytes_accessed ? bytes(cost.bytes_accessed) : "",
].filter(Boolean).join(", ");

function table(head, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((text) => element("th", {}, text)))),
    element("tbody", {}, ...rows));
}

// Names are unique in their computation only: an instruction is "computation/name" in addresses,
// "/name" in any computation, and "computation/" is the computation itself.
const HEADER = /^(?:ENTRY )?%([\w.\-]+) \(/;
const DEFINITION = /^\s*(?:ROOT )?%([\w.\-]+) = /;

function* linesOf(pass) {
  let computation = "";
  for (const number of pass.lines) {
    const [text, place] = data.lines[number];
    const header = HEADER.exec(text);
    if (header) computation = header[1];
    yield { number, text, place, computation, header: Boolean(header),
      defined: DEFINITION.exec(text)?.[1] };
  }
}

const computations = new Set(), definitionPlace = new Map();
for (const pass of data.passes)
  for (const line of linesOf(pass)) {
    if (line.header) computations.add(line.computation);
    if (line.defined && line.place >= 0)
      definitionPlace.set(`${line.computation}/${line.defined}`, line.place);
  }

function chosen(key, computation, name) {
  const [inside, wanted] = key.split("/");
  return Boolean(wanted) && wanted === name && (!inside || inside === computation);
}

// A line of HLO: names of instructions and computations are links.
function hloLine(text, computation, now) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(/%[\w.\-]+/g)) {
    const name = match[0].slice(1);
    const called = computations.has(name) && /[={,] ?$/.test(text.slice(0, match.index));
    const instruction = called ? `${name}/` : `${computation}/${name}`;
    const place = definitionPlace.get(instruction) ?? null;
    const kernel = kernelOf.get(name);
    const target = HEADER.test(text) && match.index <= 7 ? `${name}/` : instruction;
    const shown = link({ instruction: target, place, ...(kernel ? { kernel } : {}) }, match[0]);
    const here = target === now.instruction || chosen(now.instruction, computation, name);
    parts.push(text.slice(end, match.index), here ? element("b", {}, shown) : shown);
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

function drawSummary() {
  byId("summary").replaceChildren(...Object.entries(data.summary).flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, value)]));
}

function drawSource(now) {
  const blocks = data.sources.map((source) => {
    const pre = element("pre");
    pre.append(element("div", { class: "gap" }, source.file));
    source.lines.forEach((text, i) => {
      const line = source.first + i;
      const place = data.places.findIndex(([f, l]) => f === source.file && l === line);
      const number = String(line);
      pre.append(element("div", { class: place >= 0 && place === now.place ? "on" : null },
        element("span", { class: "number" },
          place < 0 ? number : link({ place }, number, { title: "what this line became" })),
        text));
    });
    if (!source.lines.length) pre.append(element("div", { class: "gap" }, "(not readable)"));
    return pre;
  });
  byId("source-text").replaceChildren(...blocks);
  if (!blocks.length)
    byId("source-text").append(element("p", { class: "empty" }, "no source lines in the metadata"));
}

function drawFront(now) {
  document.querySelector("main").classList.toggle("nofront", !data.front.length);
  if (!data.front.length) return;
  byId("front-title").textContent = data.front.map((stage) => stage.title).join(", ");
  const pre = element("pre");
  for (const stage of data.front)
    for (const [text, place] of stage.lines)
      pre.append(element("div", { class: place >= 0 && place === now.place ? "on" : null },
        place < 0 ? text : link({ place }, text, { style: "color: inherit" })));
  byId("front-text").replaceChildren(pre);
}

function drawPasses(now) {
  const rows = data.passes.map((pass, i) => {
    const count = (tags, from, to) => pass.diff.filter(([tag]) => tags.includes(tag))
      .reduce((sum, op) => sum + op[to] - op[from], 0);
    const touched = now.place >= 0 && pass.lines.some((n) => data.lines[n][1] === now.place);
    return element("tr", { class: i === now.pass ? "here" : touched ? "on" : null },
      element("td", {}, link({ pass: i }, pass.name)),
      element("td", {}, pass.pipeline),
      element("td", {}, i ? `+${count(["insert", "replace"], 3, 4)}` : ""),
      element("td", {}, i ? `−${count(["delete", "replace"], 1, 2)}` : ""),
      element("td", {}, pass.seconds ? `${(pass.seconds * 1e3).toFixed(2)} ms` : ""),
      element("td", {}, flops(pass.flops)),
      element("td", {}, bytes(pass.bytes)));
  });
  byId("pass-list").replaceChildren(
    table(["pass", "pipeline", "", "", "time", "arithmetic", "memory traffic"], rows));
  byId("pass-list").querySelector("tr.here")?.scrollIntoView({ block: "nearest" });
  drawPass(now);
}

function drawPass(now) {
  const pass = data.passes[now.pass];
  if (!pass) return;
  const last = now.pass === data.passes.length - 1;
  byId("pass-title").textContent = now.pass ? `after ${pass.name}` : "as received";
  byId("pass-modes").replaceChildren(...["diff", "changes", "whole"].map((mode) =>
    link({ mode }, { diff: "with what changed", changes: "changes only", whole: "text" }[mode],
      { "aria-current": mode === now.mode ? "true" : null })));
  const pre = element("pre");
  const add = (line, kind, cost = null) => {
    const on = line.place >= 0 && line.place === now.place;
    pre.append(element("div", { class: [kind, on ? "on" : ""].filter(Boolean).join(" ") || null,
      title: data.callers[line.number].join("\n") || null },
      { plus: "+ ", minus: "− " }[kind] ?? (now.mode === "whole" ? "" : "  "),
      ...hloLine(line.text, line.computation, now),
      ...(cost ? [element("span", { class: "cost" }, costText(cost))] : [])));
  };
  const before = now.pass ? [...linesOf(data.passes[now.pass - 1])] : [];
  const after = [...linesOf(pass)];
  const costs = last ? data.costs : [];
  const show = (from, to, kind) => {
    for (let i = from; i < to; i++) add(after[i], kind, costs[i]);
  };
  const gap = (count) => pre.append(element("div", { class: "gap" }, `… ${count} lines …`));
  if (now.mode === "whole" || !now.pass) show(0, after.length, "");
  else for (const [tag, a, b, c, d] of pass.diff) {
    if (tag !== "equal") {
      for (let i = a; i < b; i++) add(before[i], "minus");
      show(c, d, "plus");
    } else if (now.mode === "changes" && d - c > 2 * CONTEXT + 1) {
      show(c, c + CONTEXT, "");
      gap(d - c - 2 * CONTEXT);
      show(d - CONTEXT, d, "");
    } else show(c, d, "");
  }
  byId("pass-text").replaceChildren(pre);
}

const instructionCount = (text) => text.split("\n")
  .filter((line) => /^\s+[a-z%]/.test(line) && !/^\s+\.|:\s*$/.test(line)).length;

const LAUNCH = ["blocks × threads", "shared memory", "registers", "spilled", "occupancy"];

// Of each launch of a kernel, one below the other.
const launchCells = ({ launches }) => [
  (l) => `${l.blocks} × ${l.threads}`,
  (l) => bytes(l.shared_bytes),
  (l) => l.registers ?? "?",
  (l) => (l.spilled_bytes === null ? "?" : bytes(l.spilled_bytes)),
  (l) => (l.occupancy === null ? "?" : `${(100 * l.occupancy).toFixed(0)} %`),
].map((text) => element("td", {}, ...launches.map((l) => element("div", {}, String(text(l))))));

function drawKernels(now) {
  const rows = data.kernels.map((kernel) =>
    element("tr", { class: kernel.name === now.kernel ? "here"
        : kernel.places.includes(now.place) ? "on" : null },
      element("td", {}, link({ kernel: kernel.name }, kernel.name)),
      element("td", {}, kernel.instructions.length > 1 ? `${kernel.instructions.length} ×` : ""),
      ...(gpu ? launchCells(kernel) : [element("td", {}, kernel.inline ? "in place" : "")]),
      element("td", {}, costText(kernel.cost)),
      element("td", {}, `${instructionCount(kernel.assembly)} instr.`)));
  byId("kernel-list").replaceChildren(
    data.kernels.length ? table(["kernel", "calls", ...(gpu ? LAUNCH : [""]), "cost of a call", CODES.assembly], rows)
      : element("p", { class: "empty" }, "no generated kernels"));
  byId("kernel-list").querySelector("tr.here")?.scrollIntoView({ block: "nearest" });
  const kernel = data.kernels.find((k) => k.name === now.kernel);
  if (!kernel) return;
  byId("kernel-title").replaceChildren(`${kernel.name}: `, ...kernel.instructions.flatMap((name) =>
    [link({ instruction: `/${name}`, pass: data.passes.length - 1, mode: "whole" }, `%${name}`), " "]));
  byId("kernel-modes").replaceChildren(...Object.entries(CODES).map(([code, title]) =>
    link({ code }, `${title} (${instructionCount(kernel[code])})`,
      { "aria-current": code === now.code ? "true" : null })));
  const pre = element("pre");
  for (const line of (kernel[now.code] ?? kernel.loop_ir).split("\n"))
    pre.append(element("div", {}, line.replace(/\t/g, "    ")));
  byId("kernel-text").replaceChildren(pre);
}

function drawSelection(now) {
  const parts = [];
  if (now.place >= 0 && data.places[now.place]) {
    const [file, line] = data.places[now.place];
    const kernels = data.kernels.filter((k) => k.places.includes(now.place));
    parts.push(`${file}:${line} runs in `, ...kernels.flatMap((k) =>
      [link({ kernel: k.name }, k.name), " "]), kernels.length ? "" : "no generated kernel ",
      link({ place: null, instruction: null }, "(clear)"));
  }
  byId("selection").replaceChildren(...parts);
}

function draw() {
  const now = state();
  drawSource(now);
  drawFront(now);
  drawPasses(now);
  drawKernels(now);
  drawSelection(now);
  for (const id of ["source-text", "front-text", "pass-text"]) {
    const chosen = byId(id).querySelector("b") ?? byId(id).querySelector(".on");
    chosen?.scrollIntoView({ block: "nearest" });
  }
}

drawSummary();
window.addEventListener("hashchange", draw);
draw();
document.body.dataset.ready = "true";
