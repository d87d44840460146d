// Live progress of a plan or run. Without JavaScript the page reloads itself instead.
"use strict";
for (const box of document.querySelectorAll("[data-events]")) {
  const time = (us) => (us == null ? "-" : us >= 1e9 ? `${(us / 1e6).toPrecision(3)} s` : us >= 10000 ? `${(us / 1000).toFixed(2)} ms` : `${us.toFixed(1)} us`);
  const spell = {
    incumbent_us: time,
    bound_us: time,
    gap: (gap) => (gap == null ? "-" : `${(100 * gap).toFixed(2)}%`),
    elapsed_s: (s) => `${s.toFixed(1)} s`,
  };
  const events = new EventSource(box.dataset.events);
  events.addEventListener("progress", (event) => {
    const data = JSON.parse(event.data);
    for (const field of box.querySelectorAll("[data-field]")) {
      const name = field.dataset.field;
      if (name in data) field.textContent = (spell[name] || String)(data[name]);
    }
  });
  events.addEventListener("end", () => {
    events.close();
    location.reload();
  });
}
