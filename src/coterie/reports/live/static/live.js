"use strict";
/* The live view: takes in what the server tells, shows how far the runs are, and lets the page's
 * own components draw the rest. Told are parts by name; those that did not change are not sent
 * again. "progress" is how far it is, "subjects" the titles, "PLACE/NAME" one view of a subject. */
(() => {
  const { make } = Coterie;
  const MAX_RUNS = 8;
  const STYLE = `
    #live { background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
      padding: 12px 18px; margin: 10px 0 14px; }
    #live p { margin: 0 0 8px; }
    #live progress { width: 100%; height: 10px; accent-color: var(--accent); }
    #live ul { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 24px; margin: 8px 0 0;
      padding: 0; color: var(--quiet); font-variant-numeric: tabular-nums; }
    #live ul:empty { display: none; }
    #live li { overflow-wrap: anywhere; }
    #live code { overflow-wrap: anywhere; }`;
  const parts = new Map();
  const words = make("p", { id: "live-words", role: "status", text: "Connecting …" });
  const whole = make("progress", { id: "live-progress", max: "1", value: "0", "aria-label": "Rounds done" });
  const runs = make("ul", { id: "live-runs" });
  const notices = make("ul", { id: "live-problems" });
  document.head.append(make("style", { text: STYLE }));
  document.querySelector("header .top").after(make("div", { id: "live" }, [words, whole, runs, notices]));

  const source = new EventSource("/events");
  source.addEventListener("update", (event) => {
    const told = JSON.parse(event.data);
    for (const [name, data] of Object.entries(told.parts)) parts.set(name, data);
    const names = new Set(told.names);
    for (const name of [...parts.keys()]) if (!names.has(name)) parts.delete(name);
    if ("progress" in told.parts) progress(parts.get("progress"));
    if (Object.keys(told.parts).some((name) => name !== "progress")) figures();
  });
  source.addEventListener("end", () => {
    source.close();
    said("The live view has ended; what you see stays. Look again with: ");
  });
  source.onerror = () => said("The connection is lost; trying again … ");
  source.onopen = () => parts.has("progress") && progress(parts.get("progress"));

  function said(text) {
    const command = parts.get("progress")?.command ?? "";
    words.replaceChildren(text, make("code", { text: command }));
  }

  function progress({ text, done, total, current, problems }) {
    words.textContent = text;
    whole.hidden = total === 0;
    whole.max = Math.max(1, total);
    whole.value = done;
    runs.replaceChildren(...current.slice(0, MAX_RUNS).map((run) => make("li", { text: run })));
    if (current.length > MAX_RUNS) {
      runs.append(make("li", { text: `… and ${current.length - MAX_RUNS} more` }));
    }
    notices.replaceChildren(...problems.map((problem) => make("li", { class: "notice", text: problem })));
  }

  function figures() {
    const titles = parts.get("subjects") ?? [];
    if (!titles.length) return;
    const subjects = titles.map((title, place) => ({ title, views: views(place) }));
    Coterie.show({ subjects });
  }

  function views(place) {
    const found = {};
    for (const [name, data] of parts) {
      const [where, view] = name.split("/");
      if (view && Number(where) === place) found[view] = data;
    }
    return found;
  }
})();
