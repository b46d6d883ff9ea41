// The page of `lockstep serve`: open a picture, then click (segment), or see what it shows (classify, detect).
"use strict";

const element = (id) => document.getElementById(id);
const canvas = element("picture");
const paper = canvas.getContext("2d");
// A token stands behind the # of the address that the command prints: browsers do not send that part anywhere.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
const names = {segment: "Segment", classify: "Classify", detect: "Detect"};
const colours = ["#1f63d2", "#c83c1e", "#148246", "#8c3cb4", "#b46e00", "#007d8c", "#be286e"];

const state = {tab: null, file: null, image: null, id: null, opening: null, prompts: [], masks: [], chosen: 0, objects: [], mode: "add",
               drag: null, cross: null, asked: 0};

function say(text, bad = false) {
  element("status").textContent = text;
  element("status").classList.toggle("bad", bad);
}

async function ask(path, body) {
  const headers = token ? {Authorization: "Bearer " + token} : {};
  const answer = await fetch(path, body === undefined ? {headers} : {method: "POST", body, headers});
  const json = await answer.json().catch(() => ({}));
  if (answer.ok) return json;
  const error = new Error(json.error ? json.error.message : "the server answered " + answer.status);
  error.status = answer.status;
  throw error;
}

const failed = (error) => say(error.message || String(error), true);

// --- pictures ---

async function show(file) {
  try {
    state.image = await createImageBitmap(file);
  } catch {
    return say("This is no picture that can be shown: PNG and JPEG are.", true);
  }
  Object.assign(state, {file, id: null, opening: null, prompts: [], masks: [], objects: [], cross: null});
  canvas.width = state.image.width;
  canvas.height = state.image.height;
  element("empty").hidden = true;
  canvas.hidden = false;
  element("another").hidden = false;
  draw();
  await look();
}

async function look() {
  element("results").replaceChildren();
  element("tools").hidden = state.tab !== "segment" || !state.image;
  canvas.classList.toggle("idle", state.tab !== "segment");
  if (!state.image) return say("");
  try {
    if (state.tab === "segment") {
      await opened();
      list();
    } else {
      const file = state.file;
      say("Looking …");
      const found = await ask("api/" + state.tab, file);
      if (file !== state.file) return;
      state.tab === "classify" ? showClasses(found) : showObjects(found);
    }
  } catch (error) {
    failed(error);
  }
  draw();
}

// Sends the picture once; later clicks only name it.
function opened() {
  if (state.id) return state.id;
  if (!state.opening) {
    const file = state.file;
    say("Looking at the picture …");
    const start = performance.now();
    state.opening = ask("api/pictures", file).then((answer) => {
      if (file !== state.file) return null;
      state.id = answer.id;
      state.hash = answer.embedding_hash;
      const seconds = ((performance.now() - start) / 1000).toFixed(1);
      say(`Click on what you want to cut out. (Looked at in ${seconds} s.)`);
      return answer.id;
    }).finally(() => { state.opening = null; });
  }
  return state.opening;
}

function sample() {
  const size = {width: 480, height: 360};
  const sheet = Object.assign(document.createElement("canvas"), size);
  const pen = sheet.getContext("2d");
  const shape = (colour, path) => { pen.fillStyle = colour; pen.beginPath(); path(); pen.fill(); };
  shape("#bcd7ea", () => pen.rect(0, 0, 480, 230));
  shape("#8aa86a", () => pen.rect(0, 230, 480, 130));
  shape("#f4c542", () => pen.arc(390, 80, 38, 0, 7));
  shape("#c4553d", () => pen.rect(90, 130, 150, 130));
  shape("#6d3b2d", () => { pen.moveTo(75, 135); pen.lineTo(165, 60); pen.lineTo(255, 135); });
  shape("#3f4a57", () => pen.rect(145, 190, 42, 70));
  shape("#5d4a3a", () => pen.rect(338, 190, 18, 80));
  shape("#3c7a45", () => pen.arc(347, 165, 52, 0, 7));
  sheet.toBlob((blob) => show(blob), "image/png");
}

// --- segment ---

async function predict() {
  element("undo").disabled = element("clear").disabled = state.prompts.length === 0;
  if (state.prompts.length === 0) {
    state.masks = [];
    list();
    return draw();
  }
  const number = ++state.asked;
  try {
    const points = state.prompts.filter((p) => p.point).map((p) => [...p.point, p.keep ? 1 : 0]);
    const boxes = state.prompts.filter((p) => p.box);
    const prompt = {points, multimask: state.prompts.length === 1 && boxes.length === 0};
    if (boxes.length) prompt.box = boxes[boxes.length - 1].box;
    const start = performance.now();
    let answer;
    try {
      answer = await ask(`api/pictures/${await opened()}/segment`, JSON.stringify(prompt));
    } catch (error) {
      if (error.status !== 404) throw error;
      state.id = null;  // the server has forgotten it
      answer = await ask(`api/pictures/${await opened()}/segment`, JSON.stringify(prompt));
    }
    if (number !== state.asked) return;  // a later click was faster
    state.masks = answer.masks;
    state.chosen = answer.best;
    say(`Found in ${Math.round(performance.now() - start)} ms.`);
    list();
  } catch (error) {
    failed(error);
  }
  draw();
}

function pictureOf(mask) {
  mask.picture ||= painted(mask.rle);
  return mask.picture;
}

// A mask as a sheet of one colour. Runs go down the columns: outside, inside, outside, ...
function painted(rle) {
  const [height, width] = rle.size;
  const sheet = Object.assign(document.createElement("canvas"), {width, height});
  const pen = sheet.getContext("2d");
  const pixels = pen.createImageData(width, height);
  const words = new Uint32Array(pixels.data.buffer);
  const blue = new Uint32Array(new Uint8Array([30, 144, 255, 255]).buffer)[0];
  let x = 0, y = 0;
  rle.counts.forEach((count, i) => {
    for (let left = count; left > 0;) {
      const run = Math.min(left, height - y);
      if (i % 2) for (let k = 0; k < run; ++k) words[(y + k) * width + x] = blue;
      left -= run;
      y += run;
      if (y === height) { y = 0; ++x; }
    }
  });
  pen.putImageData(pixels, 0, 0);
  return sheet;
}

function list() {
  const rows = state.masks.map((mask, i) => {
    const row = entry(`Mask ${i + 1}`, `IoU ${mask.iou.toFixed(2)}`, mask.iou);
    row.className = "pick";
    row.tabIndex = 0;
    row.setAttribute("aria-current", String(i === state.chosen));
    const choose = () => { state.chosen = i; list(); draw(); };
    row.onclick = choose;
    row.onkeydown = (event) => { if (event.key === "Enter") choose(); };
    return row;
  });
  put(rows, state.hash && state.id ? "Embedding " + state.hash : "");
  element("save").disabled = rows.length === 0;
}

function save() {
  const mask = state.masks[state.chosen];
  const sheet = Object.assign(document.createElement("canvas"), {width: canvas.width, height: canvas.height});
  const pen = sheet.getContext("2d");
  pen.drawImage(pictureOf(mask), 0, 0);
  pen.globalCompositeOperation = "source-in";
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, sheet.width, sheet.height);
  pen.globalCompositeOperation = "destination-over";
  pen.fillStyle = "#000";
  pen.fillRect(0, 0, sheet.width, sheet.height);
  sheet.toBlob((blob) => {
    const link = Object.assign(document.createElement("a"), {href: URL.createObjectURL(blob), download: "mask.png"});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

// --- results ---

function entry(text, number, share) {
  const row = document.createElement("li");
  const name = Object.assign(document.createElement("span"), {textContent: text});
  const value = Object.assign(document.createElement("span"), {textContent: number, className: "number"});
  const bar = Object.assign(document.createElement("span"), {className: "bar"});
  const fill = document.createElement("i");
  fill.style.width = Math.max(0, Math.min(1, share)) * 100 + "%";
  bar.append(fill);
  row.append(name, value, bar);
  return row;
}

function put(rows, note) {
  const found = document.createElement("ol");
  found.append(...rows);
  element("results").replaceChildren(found, Object.assign(document.createElement("code"), {textContent: note}));
}

const percent = (share) => (100 * share).toFixed(1) + " %";

function showClasses(found) {
  say("It shows:");
  put(found.top.map((one) => entry(one.label, percent(one.probability), one.probability)), "Logits " + found.logits_hash);
}

function showObjects(found) {
  state.objects = found.objects;
  say(found.objects.length === 1 ? "One object." : `${found.objects.length} objects.`);
  put(found.objects.map((one) => entry(one.label, percent(one.score), one.score)), "");
}

function draw() {
  if (!state.image) return;
  paper.drawImage(state.image, 0, 0);
  // Marks are as large on the screen whatever the picture's size.
  const unit = canvas.width / (canvas.clientWidth || canvas.width);
  if (state.tab === "segment") {
    const mask = state.masks[state.chosen];
    if (mask) {
      paper.globalAlpha = 0.5;
      paper.drawImage(pictureOf(mask), 0, 0);
      paper.globalAlpha = 1;
    }
    const boxes = state.prompts.filter((p) => p.box).map((p) => p.box).slice(-1);
    if (state.drag && state.drag.box) boxes.push(state.drag.box);
    paper.lineWidth = 2 * unit;
    paper.strokeStyle = "#1e90ff";
    for (const [x0, y0, x1, y1] of boxes) paper.strokeRect(x0, y0, x1 - x0, y1 - y0);
    for (const prompt of state.prompts.filter((p) => p.point)) {
      paper.beginPath();
      paper.arc(prompt.point[0], prompt.point[1], 6 * unit, 0, 7);
      paper.fillStyle = prompt.keep ? "#28c83c" : "#e62828";
      paper.fill();
      paper.strokeStyle = "#fff";
      paper.stroke();
    }
    if (state.cross) {
      const [x, y] = state.cross;
      paper.strokeStyle = "#fff";
      paper.strokeRect(x - 7 * unit, y - 7 * unit, 14 * unit, 14 * unit);
      paper.strokeStyle = "#000";
      paper.strokeRect(x - 5 * unit, y - 5 * unit, 10 * unit, 10 * unit);
    }
  } else if (state.tab === "detect") {
    paper.font = `${14 * unit}px system-ui, sans-serif`;
    paper.lineWidth = 3 * unit;
    for (const one of [...state.objects].reverse()) {
      const [x0, y0, x1, y1] = one.box;
      const text = `${one.label} ${Math.round(100 * one.score)}%`;
      paper.strokeStyle = paper.fillStyle = colours[one.index % colours.length];
      paper.strokeRect(x0, y0, x1 - x0, y1 - y0);
      const top = y0 > 20 * unit ? y0 - 20 * unit : y0;
      paper.fillRect(x0 - 1.5 * unit, top, paper.measureText(text).width + 10 * unit, 20 * unit);
      paper.fillStyle = "#fff";
      paper.fillText(text, x0 + 4 * unit, top + 15 * unit);
    }
  }
}

// --- what people do ---

function place(event) {
  const box = canvas.getBoundingClientRect();
  const bound = (value, most) => Math.max(0, Math.min(most - 1, value));
  return [bound((event.clientX - box.left) * canvas.width / box.width, canvas.width),
          bound((event.clientY - box.top) * canvas.height / box.height, canvas.height)];
}

function addPoint(point, keep) {
  state.prompts.push({point, keep});
  predict();
}

canvas.addEventListener("pointerdown", (event) => {
  if (state.tab !== "segment" || !state.image) return;
  canvas.setPointerCapture(event.pointerId);
  state.drag = {from: place(event), start: [event.clientX, event.clientY], box: null, other: event.button === 2 || event.shiftKey};
});
canvas.addEventListener("pointermove", (event) => {
  if (!state.drag) return;
  const far = Math.hypot(event.clientX - state.drag.start[0], event.clientY - state.drag.start[1]) > 6;
  if (!state.drag.box && !far) return;
  const [ax, ay] = state.drag.from, [bx, by] = place(event);
  state.drag.box = [Math.min(ax, bx), Math.min(ay, by), Math.max(ax, bx), Math.max(ay, by)];
  draw();
});
canvas.addEventListener("pointerup", () => {
  const drag = state.drag;
  state.drag = null;
  if (!drag) return;
  if (drag.box) {
    state.prompts.push({box: drag.box});
    predict();
  } else if (state.mode !== "box") {
    addPoint(drag.from, state.mode === "add" && !drag.other);
  } else {
    say("Draw a box: press, move, and let go.");
  }
});
canvas.addEventListener("pointercancel", () => { state.drag = null; draw(); });
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("keydown", (event) => {
  if (state.tab !== "segment" || !state.image) return;
  const step = Math.max(canvas.width, canvas.height) / (event.shiftKey ? 200 : 40);
  const moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]};
  const cross = state.cross || [canvas.width / 2, canvas.height / 2];
  if (moves[event.key]) {
    state.cross = cross.map((value, i) => Math.max(0, Math.min([canvas.width, canvas.height][i] - 1, value + moves[event.key][i])));
    draw();
  } else if (event.key === "Enter" || event.key === " ") {
    state.cross = cross;
    addPoint(cross, true);
  } else if (event.key === "Delete" || event.key === "Backspace") {
    state.cross = cross;
    addPoint(cross, false);
  } else {
    return;
  }
  event.preventDefault();
});

element("clicks").addEventListener("click", (event) => {
  const mode = event.target.dataset.mode;
  if (!mode) return;
  state.mode = mode;
  for (const button of element("clicks").children) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
});
element("undo").onclick = () => { state.prompts.pop(); predict(); };
element("clear").onclick = () => { state.prompts = []; ++state.asked; predict(); };
element("save").onclick = save;
element("sample").onclick = sample;
element("open").onclick = element("another").onclick = () => element("file").click();
element("file").onchange = () => { if (element("file").files[0]) show(element("file").files[0]); element("file").value = ""; };
const stage = element("stage");
for (const kind of ["dragenter", "dragover"]) {
  stage.addEventListener(kind, (event) => { event.preventDefault(); stage.classList.add("over"); });
}
for (const kind of ["dragleave", "drop"]) stage.addEventListener(kind, () => stage.classList.remove("over"));
stage.addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files[0]) show(event.dataTransfer.files[0]);
});
addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files].find((one) => one.type.startsWith("image/"));
  if (file) show(file);
});
addEventListener("resize", draw);

function choose(tab) {
  state.tab = tab;
  state.objects = [];
  for (const button of element("tabs").children) button.setAttribute("aria-selected", String(button.dataset.tab === tab));
  look();
}

ask("api/models").then((served) => {
  element("device").textContent = "computed on " + served.device;
  const tabs = Object.keys(names).filter((name) => served[name]);
  element("tabs").replaceChildren(...tabs.map((name) => {
    const button = Object.assign(document.createElement("button"), {textContent: names[name], onclick: () => choose(name)});
    button.dataset.tab = name;
    button.setAttribute("role", "tab");
    return button;
  }));
  choose(tabs[0]);
}).catch(failed);
