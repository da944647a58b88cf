"use strict";
/* The live view: receives updates from the server, shows the progress, and passes the views to the
 * components of the page. An update has the names of all parts and the data of the changed ones:
 * "progress", "groups" (their titles) and "INDEX/NAME" (one view of a group). */
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
  const status = make("p", { id: "live-status", role: "status", text: "Connecting …" });
  const bar = make("progress", { id: "live-progress", max: "1", value: "0", "aria-label": "Rounds done" });
  const runs = make("ul", { id: "live-runs" });
  const notices = make("ul", { id: "live-problems" });
  document.head.append(make("style", { text: STYLE }));
  document.querySelector("header .top").after(make("div", { id: "live" }, [status, bar, runs, notices]));

  const source = new EventSource("/events");
  source.addEventListener("update", (event) => {
    const update = JSON.parse(event.data);
    for (const [name, data] of Object.entries(update.parts)) parts.set(name, data);
    const names = new Set(update.names);
    for (const name of [...parts.keys()]) if (!names.has(name)) parts.delete(name);
    if ("progress" in update.parts) showProgress(parts.get("progress"));
    if (Object.keys(update.parts).some((name) => name !== "progress")) showFigures();
  });
  source.addEventListener("end", () => {
    source.close();
    showStatus("The live view has ended. The page keeps its last state. To watch again, run: ");
  });
  source.onerror = () => showStatus("Connection lost. Trying again … ");
  source.onopen = () => parts.has("progress") && showProgress(parts.get("progress"));

  function showStatus(text) {
    const command = parts.get("progress")?.command ?? "";
    status.replaceChildren(text, make("code", { text: command }));
  }

  function showProgress({ text, done, total, current, problems }) {
    status.textContent = text;
    bar.hidden = total === 0;
    bar.max = Math.max(1, total);
    bar.value = done;
    runs.replaceChildren(...current.slice(0, MAX_RUNS).map((run) => make("li", { text: run })));
    if (current.length > MAX_RUNS) {
      runs.append(make("li", { text: `… and ${current.length - MAX_RUNS} more` }));
    }
    notices.replaceChildren(...problems.map((problem) => make("li", { class: "notice", text: problem })));
  }

  function showFigures() {
    const titles = parts.get("groups") ?? [];
    if (!titles.length) return;
    const groups = titles.map((title, place) => ({ title, views: views(place) }));
    Coterie.show({ groups });
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
