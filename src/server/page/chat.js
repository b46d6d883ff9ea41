// The page to chat on: sends the conversation, shows the answer as it comes, and beneath it the hash of its tokens.
"use strict";

const element = (id) => document.getElementById(id);
// A token stands behind the # of the address that the command prints: browsers do not send that part anywhere.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
const headers = token ? {Authorization: "Bearer " + token} : {};
const state = {messages: [], running: null, model: null};

function say(text, bad = false) {
  element("status").textContent = text;
  element("status").classList.toggle("bad", bad);
}

function show(role, text) {
  const hint = element("hint");
  if (hint) hint.hidden = true;
  const box = document.createElement("div");
  box.className = "message " + role;
  const line = document.createElement("p");
  line.textContent = text;
  box.append(line);
  element("messages").append(box);
  box.scrollIntoView({block: "end"});
  return box;
}

// Code between lines of ``` stands apart; all else is as the model wrote it.
function fill(line, text) {
  const parts = text.split(/^ *```.*\n?/m);
  if (parts.length === 1) {
    line.textContent = text;
    return;
  }
  line.replaceChildren(...parts.map((part, at) => {
    if (at % 2 === 0) return part.replace(/^\n+|\n+$/g, '');
    const code = document.createElement('pre');
    code.textContent = part;
    return code;
  }));
}

// Who has scrolled up is reading.
function follow(box, change) {
  const seen = box.getBoundingClientRect().bottom < element('messages').getBoundingClientRect().bottom + 100;
  change();
  if (seen) box.scrollIntoView({block: 'end'});
}

// What a model thinks before it answers, above the answer; closed once that begins.
function thoughtsOf(box) {
  const part = document.createElement("details");
  const title = document.createElement("summary");
  const line = document.createElement("p");
  part.append(title, line);
  return {
    text: () => line.textContent,
    add(text) {
      if (!text) return;
      if (!line.textContent) {
        title.textContent = "Thinking …";
        part.open = true;
        box.prepend(part);
      }
      line.textContent += text;
    },
    end() {
      if (title.textContent !== "Thinking …") return;
      title.textContent = "Thoughts";
      part.open = false;
    }
  };
}

function running(controller) {
  state.running = controller;
  element("send").hidden = controller !== null;
  element("stop").hidden = controller === null;
}

// The events of an answer that is being sent: one JSON text each.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "";;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ") && part !== "data: [DONE]") yield JSON.parse(part.slice(6));
    }
  }
}

function request() {
  const number = (id) => Number(element(id).value);
  const system = element("system").value.trim();
  return {
    model: state.model,
    messages: (system ? [{role: "system", content: system}] : []).concat(state.messages),
    temperature: number("temperature"), top_p: number("top_p"), seed: Math.trunc(number("seed")),
    max_tokens: Math.trunc(number("max_tokens")), stream: true, stream_options: {include_usage: true}
  };
}

// To the last message, which stands in `asked`.
async function answer(asked) {
  const controller = new AbortController();
  const messages = state.messages;  // of another conversation, once a new one begins
  running(controller);
  say('');
  const box = show("assistant", "");
  const line = box.firstChild;
  const thoughts = thoughtsOf(box);
  const numbers = document.createElement("p");
  numbers.className = "numbers";
  let text = '', hash = null, reason = null, usage = null;
  const start = performance.now();
  try {
    const reply = await fetch("v1/chat/completions", {method: "POST", headers, body: JSON.stringify(request()), signal: controller.signal});
    if (!reply.ok) {
      const json = await reply.json().catch(() => ({}));
      throw new Error(json.error ? json.error.message : "the server answered " + reply.status);
    }
    for await (const event of events(reply.body)) {
      if (event.error) throw new Error(event.error.message);
      if (event.usage) usage = event.usage;
      const choice = event.choices[0];
      if (!choice) continue;
      follow(box, () => {
        thoughts.add(choice.delta.reasoning_content || '');
        if (choice.delta.content) thoughts.end();
        fill(line, text += choice.delta.content || '');
      });
      hash = choice.tokens_hash || hash;
      reason = choice.finish_reason || reason;
    }
    const seconds = (performance.now() - start) / 1000;
    const count = usage ? usage.completion_tokens : 0;
    const hashed = document.createElement("code");
    hashed.textContent = hash;
    numbers.append(
        `${count} tokens, ${(count / seconds).toFixed(1)} a second` + (reason === 'length' ? ', cut off' : '') + ' · ',
        hashed);
  } catch (error) {
    if (error.name === "AbortError") {
      numbers.append('stopped: no hash');
    } else {
      say(error instanceof TypeError ? 'the server does not answer' : error.message, true);
    }
  }
  thoughts.end();
  if (text || thoughts.text()) {
    // A template reads them, or passes over them.
    messages.push({role: 'assistant', content: text, reasoning_content: thoughts.text() || null});
    follow(box, () => box.append(numbers));
  } else {
    // The message that was not answered can be sent again.
    box.remove();
    asked.remove();
    const {content} = messages.pop();
    if (messages === state.messages && !element('text').value) element('text').value = content;
  }
  running(null);
}

element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = element("text").value.trim();
  if (!text || state.running) return;
  element("text").value = "";
  state.messages.push({role: "user", content: text});
  answer(show('user', text));
});
element("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  element("form").requestSubmit();
});
element("stop").addEventListener("click", () => state.running && state.running.abort());
element("new").addEventListener("click", () => {
  if (state.running) state.running.abort();
  state.messages = [];
  for (const box of document.querySelectorAll(".message")) box.remove();
  element("hint").hidden = false;
  say("");
  element("text").focus();
});

fetch("v1/models", {headers}).then((reply) => reply.json()).then((json) => {
  if (json.error) throw new Error(json.error.message);
  state.model = json.data[0].id;
  element("device").textContent = state.model;
}).catch((error) => say(error.message || String(error), true));
element("text").focus();
