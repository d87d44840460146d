// Sends a form of the page of the API as the request that it describes, and shows the answer below. The login's cookie goes along.
"use strict";

function requestOf(form) {
  const query = new URLSearchParams();
  const headers = new Headers();
  let path = form.dataset.path;
  for (const field of form.querySelectorAll("[data-in]")) {
    const { name, value } = field;
    if (value === "") continue;
    if (field.dataset.in === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else (field.dataset.in === "query" ? query : headers).set(name, value);
  }
  const body = form.querySelector("[data-body]")?.value;
  if (body !== undefined) headers.set("Content-Type", body.trimStart().startsWith("{") ? "application/json" : "application/yaml");
  return [query.size ? `${path}?${query}` : path, { method: form.dataset.method, headers, body, cache: "no-store" }];
}

// As it comes: a stream of events ends with its job.
async function showText(answer, into) {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part; reader && !(part = await reader.read()).done; into.textContent = text) text += part.value;
  if (/json/.test(answer.headers.get("Content-Type"))) into.textContent = JSON.stringify(JSON.parse(text), null, 2);
}

async function send(form) {
  const shown = form.nextElementSibling;
  const [status, headers, text] = ["h3", "[data-headers]", "[data-text]"].map((part) => shown.querySelector(part));
  shown.hidden = false;
  status.textContent = "Sent";
  headers.textContent = text.textContent = "";
  try {
    const answer = await fetch(...requestOf(form));
    status.textContent = `${answer.status} ${answer.statusText}`;
    headers.textContent = [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    await showText(answer, text);
  } catch (error) {
    status.textContent = `No answer: ${error.message}`;
  }
}

for (const form of document.querySelectorAll("form.try")) {
  const [button, examples] = [form.querySelector("button"), form.querySelector("[data-examples]")];
  button.disabled = false;
  examples?.addEventListener("change", () => (form.querySelector("[data-body]").value = examples.value));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    await send(form);
    button.disabled = false;
  });
}
