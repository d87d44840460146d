// Live parts: an element with an id and `data-live` is replaced by what the server now says of it. `data-live="3"` asks every
// three seconds; with `data-events` beside it, at each event of the stream, whose end loads the page anew. Without JavaScript the
// page reloads itself instead. What has the focus keeps it: it is known again by where it leads, or by what it is called.
"use strict";
let asking = false;
function nameOf(element) {
  const name = element.getAttribute("href") || element.value || element.getAttribute("aria-label") || element.textContent;
  return `${element.tagName} ${name}`;
}
async function refresh() {
  if (asking) return;
  asking = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = page.getElementById(old.id);
      if (now === null) continue;
      const ticked = new Set([...old.querySelectorAll("input:checked")].map((box) => box.value));
      const focused = old.contains(document.activeElement) ? nameOf(document.activeElement) : null;
      old.replaceChildren(...now.childNodes);
      for (const box of old.querySelectorAll("input[type=checkbox]")) box.checked = ticked.has(box.value);
      const again = [...old.querySelectorAll("a, button, input, summary, [tabindex]")].find((each) => nameOf(each) === focused);
      again?.focus({ preventScroll: true });
      if (!("live" in now.dataset)) delete old.dataset.live;
    }
  } catch {
    // The service is away for a moment: the next turn asks again.
  } finally {
    asking = false;
  }
}
for (const part of document.querySelectorAll("[data-live]")) {
  const seconds = Number(part.dataset.live);
  if (seconds > 0) {
    const timer = setInterval(() => (part.dataset.live ? document.hidden || refresh() : clearInterval(timer)), 1000 * seconds);
  }
}
for (const part of document.querySelectorAll("[data-events]")) {
  const events = new EventSource(part.dataset.events);
  events.addEventListener("progress", (event) => {
    const message = part.querySelector("[data-field=message]");
    if (message !== null) message.textContent = JSON.parse(event.data).message ?? "";
    else refresh();
  });
  events.addEventListener("end", () => {
    events.close();
    location.reload();
  });
  // What a form leads to is on its way: reloading would break that off.
  addEventListener("submit", () => events.close());
}
